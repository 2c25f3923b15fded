"""An exception in a callback of the toolbox ends one call, with an error that is told."""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from hostile_mcp import PROGRAM
from patchyard.clients.toolbox import ToolboxClient
from patchyard.toolbox.capture import Capture
from patchyard.toolbox.connection import Connection
from patchyard.toolbox.entrances import Listener
from patchyard.toolbox.loop import MOST_FAILURES, Loop
from patchyard.toolbox.server import Server, encode_result
from patchyard.toolbox.settings import Settings
from patchyard.toolbox.wire import DEEPEST, Decoder, TooDeep, WireError, dumped, encode, loaded
from toolboxes import Operations, serving


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def fails(*_: object) -> None:
    raise ZeroDivisionError


@pytest.mark.anyio
async def test_an_output_that_is_no_text_is_told_to_who_attaches_again(tmp_path: Path) -> None:
    size, heard = 9_000_000, asyncio.Event()
    waiting = "touch ready; while ! test -e go; do sleep 0.02; done"
    args = {"command": f"head -c {size} /dev/zero | tr '\\0' '\\377'; {waiting}", "timeout_s": 100}
    async with serving(tmp_path) as server:
        running = asyncio.create_task(server.client.call("c", "execute_command", args))
        await server.command("while ! test -e ready; do sleep 0.02; done", timeout_s=100)
        again = await ToolboxClient.connect(server.path)
        attached = asyncio.create_task(again.attach("c", on_output=lambda *_: heard.set()))
        await heard.wait()
        (server.workspace / "go").touch()
        for result in (await running, await attached):
            assert result is not None
            assert (result["success"], result["stdout_bytes"]) == (True, size)
        await again.close()


@pytest.mark.anyio
async def test_what_an_mcp_server_nests_too_deep_ends_that_server_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        asked = {"server": "h", "timeout_s": 60, "command": [sys.executable, PROGRAM, "deep"]}
        listed = await server.run("mcp_list", **asked)
        assert (listed["success"], "nested too deep" in listed["message"]) == (False, True)
        assert (await server.command("echo well"))["stdout"] == "well\n"


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_json_of_others_is_read_as_deep_as_honest_one_is() -> None:
    assert loaded(dumped(nested(DEEPEST - 1))) == nested(DEEPEST - 1)
    for text in (dumped(nested(DEEPEST + 1)), "[" * 100_000, '{"a":' * 990 + "1" + "}" * 990):
        with pytest.raises(TooDeep, match="nested too deep"):
            loaded(text)
        with pytest.raises(TooDeep):
            loaded(text.encode())
    with pytest.raises(ValueError, match="Expecting"):
        loaded("{")
    value: Any = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(TooDeep):
        dumped(value)
    with pytest.raises(WireError, match="nested too deep"):
        encode({"a": value})
    told = Decoder().feed(encode_result("c", {"message": "m" * 2000, "a": value}))[0]["result"]
    assert (told["error"], told["success"]) == ("INTERNAL_ERROR", False)


def test_an_exception_is_told_to_who_owns_the_callback_and_ends_no_other(loop: Loop) -> None:
    told: list[str] = []

    def steps() -> Iterator[float]:
        yield 0.0
        loop.later(0.0, fails)  # of the same owner
        yield 0.001
        raise KeyError

    with loop.owned(lambda error: told.append(f"one: {type(error).__name__}")):
        loop.step_through(steps())
        guarded = loop.guarded(fails)

    def broken(error: Exception) -> None:
        told.append(f"two: {type(error).__name__}")
        raise error

    with loop.owned(broken):
        loop.later(0.0, fails)
    loop.later(0.002, lambda: told.append("none"))
    guarded()
    while len(told) < 5:
        loop.turn()
    assert sorted(told) == sorted(
        ["one: ZeroDivisionError"] * 2 + ["one: KeyError", "two: ZeroDivisionError", "none"]
    )
    loop.later(0.0, fails)
    with pytest.raises(ZeroDivisionError):
        loop.turn()


def test_a_descriptor_whose_callback_fails_without_end_is_watched_no_more(loop: Loop) -> None:
    told: list[Exception] = []
    reading, writing = os.pipe()
    with loop.owned(told.append):
        loop.watch(reading, fails)
    os.write(writing, b"x")
    for _ in range(2 * MOST_FAILURES):
        loop.later(0.0, lambda: None)
        loop.turn()
    assert len(told) == MOST_FAILURES
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("more", [{}, {"session": "s"}])
def test_a_defect_while_output_is_taken_settles_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    box = Operations(tmp_path)
    monkeypatch.setattr(Capture, "take_text", fails)
    result = box.run("execute_command", command="echo x", **more)
    assert (result["error"], "ZeroDivisionError" in result["message"]) == ("INTERNAL_ERROR", True)
    monkeypatch.undo()
    assert box.run("execute_command", command="echo x")["stdout"] == "x\n"
    for shell in list(box.room.shells.values()):
        shell.kill("CANCELLED")
    box.room.close()


class Peer:
    """A connection that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, frame: bytes) -> None:
        self.sent += Decoder().feed(frame)

    def on_result(self, frame: bytes) -> None:
        self.send(frame)

    def on_output(self, *_: object) -> None:
        raise ZeroDivisionError


def test_a_request_that_meets_a_defect_is_told_and_the_next_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(f'{{"listen_fd": -1, "workspace": "{tmp_path}"}}')
    with socket.socket() as listener:
        server = Server(settings, Listener(listener), {})
    monkeypatch.setattr(Server, "_on_forget", fails)
    peer = Peer()
    for message in ({"do": "forget"}, {"do": "hello"}):
        server._on_message(cast("Connection", peer), message)
    assert [each["say"] for each in peer.sent] == ["error", "hello"]
    assert peer.sent[0]["message"] == "ZeroDivisionError: "
    server._room.close()
