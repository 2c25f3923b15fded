"""A tool of an MCP server as the model meets it: arguments in, answers as text out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.errors import UsageError
from patchyard.domain.mcp import McpServer, listing_of, may_repeat
from patchyard.domain.tooling import ToolResult
from patchyard.tools.mcp import McpTool, served
from wild_json import wild_json

SERVER = McpServer(name="fs", command="node", args=("x.js",), read_only_tools=("read",))
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def tool() -> McpTool:
    text = json.dumps({"name": "read", "inputSchema": SCHEMA})
    return served(SERVER, listing_of(SERVER, [text]).tools[0])


def answer(*content: Any, **more: Any) -> ToolResult:
    text = json.dumps({"content": list(content), **more})
    return ToolResult(call_id="c", success=True, message="answered", data={"answer": text})


def test_a_call_carries_how_its_server_is_started_and_what_it_is_held_to() -> None:
    made = tool()
    assert made.prepare({"path": "a"}) == (
        "mcp_call",
        {
            "server": "fs",
            "command": ["node", "x.js"],
            "env": {},
            "timeout_s": 60.0,
            "tool": "read",
            "arguments": {"path": "a"},
            "pin": made.listed.pin,
        },
    )


def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(UsageError, match="mcp__fs__read: it needs `path`"):
        tool().prepare({})


def test_only_what_the_user_vouches_for_may_be_made_again() -> None:
    vouched = McpServer(name="vouched", command="node", idempotent=True)
    names = ("mcp__fs__read", "mcp__fs__write", "mcp__vouched__write", "mcp__gone__read")
    assert [may_repeat((SERVER, vouched), name) for name in names] == [True, False, True, False]
    assert may_repeat((), "execute_command")


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "text", "text": "hello"}, "hello"),
        ({"type": "image", "mimeType": "image/png", "data": "AAAA"}, "[image image/png, 3 bytes]"),
        ({"type": "audio", "mimeType": "audio/wav", "data": "!"}, "[audio audio/wav, 0 bytes]"),
        ({"type": "resource", "resource": {"uri": "a:b", "text": "c"}}, "[resource a:b]\nc"),
        ({"type": "resource", "resource": {"uri": "a:b", "blob": "c"}}, "[resource a:b]"),
        ({"type": "resource", "resource": 7}, "[resource ]"),
        ({"type": "resource_link", "uri": "a:b", "name": "n"}, "[resource a:b n]"),
        ({}, "[something , 0 bytes]"),
    ],
)
def test_each_kind_of_content_is_shown_as_text(block: Any, shown: str) -> None:
    assert tool().render(answer(block)) == shown


def test_an_answer_without_text_shows_its_data_and_an_odd_one_shows_as_it_is() -> None:
    assert tool().render(answer(structuredContent={"a": [1]})) == '{"a": [1]}'
    assert tool().render(answer()) == "answered"
    cut = ToolResult(call_id="c", success=True, message="", data={"answer": '{"content": [{"te'})
    assert tool().render(cut) == '{"content": [{"te'
    deep = ToolResult(call_id="c", success=True, message="", data={"answer": "[" * 200 + "]" * 200})
    assert tool().render(deep).startswith("[[[")


def test_a_large_answer_is_cut_and_the_whole_is_kept_for_read_output() -> None:
    large = answer({"type": "text", "text": "line\n" * 20_000})
    shown = tool().render(large)
    assert len(shown) < 17_000
    assert 'read_output(call_id="c"' in shown
    assert len(tool().full(large)) == 100_000


def test_what_a_server_was_not_given_is_told() -> None:
    asked = {"answer": '{"content":[]}', "refused": ["sampling/createMessage"]}
    result = ToolResult(call_id="c", success=True, message="", data=asked)
    assert "asked for what it is not given: sampling/createMessage" in tool().render(result)


JSON = wild_json(["type", "text", "content", "resource", "data", "uri", "refused"])


@given(JSON, JSON, st.booleans())
def test_whatever_a_server_answers_is_shown(answered: Any, refused: Any, success: Any) -> None:
    data = {"answer": json.dumps(answered), "refused": refused}
    for given_data in (data, {"answer": answered, "refused": refused}):
        result = ToolResult(call_id="c", success=success, message="m", error="E", data=given_data)
        assert isinstance(tool().render(result), str)
