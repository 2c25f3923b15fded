"""The bridge to MCP servers that listen: carries messages, follows no redirect, reads in bounds."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_listeners import Misbehaving, listening, misbehaving
from patchyard.toolbox import bridging
from patchyard.toolbox.bridging import Bridge

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "p", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


def carried(url: str, *messages: Any) -> list[Any]:
    """What the bridge says back to these messages, in whichever order."""
    out = io.StringIO()
    bridge = Bridge(url, out)
    bridge.run(iter([json.dumps(each) + "\n" for each in messages]))
    for _ in range(bridging.AT_ONCE):  # until nobody carries anything any more
        bridge._slots.acquire()
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.fixture
def bad() -> Iterator[Misbehaving]:
    with misbehaving() as server:
        yield server


@pytest.mark.parametrize("json_response", [False, True])
def test_a_server_of_the_official_library_is_spoken_to(*, json_response: bool) -> None:
    with listening(json_response=json_response) as url:
        hello, tools = carried(url, HELLO, READY, LIST)
    assert hello["result"]["protocolVersion"] == "2025-06-18"
    assert [tool["name"] for tool in tools["result"]["tools"]] == ["greet", "ask"]


def test_the_session_and_the_version_are_kept(bad: Misbehaving) -> None:
    result = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18"}}
    content = json.dumps(result, indent=1).encode()
    bad.answer = (200, {"Mcp-Session-Id": "s1", "Content-Type": "application/json"}, content)
    assert carried(bad.url, HELLO, READY) == [result, result]
    (_, first, _), (_, second, _) = bad.asked
    assert ("mcp-session-id" in first, second["mcp-session-id"]) == (False, "s1")
    assert second["mcp-protocol-version"] == "2025-06-18"
    assert "text/event-stream" in first["accept"]


@pytest.mark.parametrize("content", [b"[1]", b"7", b"[" * 50_000, b"no JSON"])
def test_a_server_that_greets_with_nonsense_ends_no_bridge(
    bad: Misbehaving, content: bytes
) -> None:
    bad.answer = (200, {"Content-Type": "application/json"}, content)
    out = io.StringIO()
    Bridge(bad.url, out).run(iter([json.dumps(HELLO) + "\n"]))
    assert out.getvalue().count("\n") == 1
    assert content.decode() in out.getvalue() or "cannot be reached" in out.getvalue()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((500, {}, b"oh"), "HTTP Error 500"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "HTTP Error 302"),
        ((200, {"Content-Type": "application/json"}, b"x" * 3000), "more than 2000 bytes"),
        ((200, {"Content-Type": "text/event-stream"}, b"data: " + b"x" * 3000), "more than 2000"),
    ],
)
def test_a_bad_answer_is_an_error_for_who_asked(
    bad: Misbehaving, answer: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridging, "LONGEST", 2000)
    bad.answer = answer
    (told,) = carried(bad.url, LIST, READY)
    assert told["id"] == 2
    assert said in told["error"]["message"]
    assert "--allow-host" in told["error"]["message"]
    assert len(bad.asked) == 2


def test_a_stream_brings_several_messages_and_what_is_empty_brings_none(bad: Misbehaving) -> None:
    content = b'event: message\ndata: {"a":\ndata: 1}\n\n: still here\n\ndata: {"b": 2}'
    bad.answer = (200, {"Content-Type": "text/event-stream"}, content)
    assert carried(bad.url, LIST) == [{"a": 1}, {"b": 2}]
    bad.answer = (202, {}, b"")
    assert carried(bad.url, READY) == []


def test_nobody_there_is_an_error_for_who_asked() -> None:
    (told,) = carried("http://127.0.0.1:1/mcp", LIST)
    assert "cannot be reached" in told["error"]["message"]
