"""The messages format where it is unlike the others: turns, ids, its cache, what is asked first."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from models.messages_server import MessagesServer
from patchyard.clients.http import HttpClient
from patchyard.domain.errors import ModelFailed
from patchyard.domain.messages import Message, ModelRequest, RequestedCall, Speaker
from patchyard.models.keys import Key
from patchyard.models.messages import LONGEST_ANSWER, Manner, MessagesModel
from patchyard.models.scripted import ScriptedReply
from patchyard.models.troubles import Provider

pytestmark = pytest.mark.anyio

ASKED = Message(speaker=Speaker.USER, text="u")


@asynccontextmanager
async def opened(
    server: MessagesServer | None = None, **more: Any
) -> AsyncIterator[tuple[MessagesServer, MessagesModel]]:
    server = server or MessagesServer(answering=lambda turn: ScriptedReply(text=f"turn {turn}"))
    async with server.running() as url:
        provider = Provider(name="house", base_url=url, model="tiny", key=Key(variable=""))
        model = MessagesModel(provider, HttpClient(url), **more)
        yield server, model
        await model.close()


def called(*ids: str, text: str = "", arguments: str = "{}") -> Message:
    calls = tuple(RequestedCall(id=id_, name="read_file", arguments=arguments) for id_ in ids)
    return Message(speaker=Speaker.ASSISTANT, text=text, calls=calls)


def result(id_: str, text: str = "r") -> Message:
    return Message(speaker=Speaker.TOOL, text=text, answers=id_)


async def sent(*messages: Message, **more: Any) -> dict[str, Any]:
    """What the server gets for a conversation, which it accepts."""
    async with opened() as (server, model):
        await model.complete(ModelRequest(messages=messages, **more))
    (asked,) = server.requests
    return asked


async def test_what_one_side_says_before_the_other_is_one_turn() -> None:
    asked = await sent(
        Message(speaker=Speaker.SYSTEM, text="s"),
        ASKED,
        called("a", "b", text="both"),
        result("a"),
        result("b", text=" "),
        Message(speaker=Speaker.USER, text="and now"),
    )
    assert asked["system"] == [{"type": "text", "text": "s"}]
    assert [m["role"] for m in asked["messages"]] == ["user", "assistant", "user"]
    assert asked["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "r"},
        {"type": "tool_result", "tool_use_id": "b"},
        {"type": "text", "text": "and now"},
    ]


async def test_who_says_nothing_has_no_turn() -> None:
    asked = await sent(ASKED, called(text=" \n"), Message(speaker=Speaker.USER, text="again"))
    (turn,) = asked["messages"]
    assert [block["text"] for block in turn["content"]] == ["u", "again"]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [('{"path": "a"}', {"path": "a"}), ("", {}), ('["a"]', {}), ('{"path": "gre', {})],
)
async def test_arguments_are_an_object_whatever_was_written(arguments: str, given: object) -> None:
    asked = await sent(ASKED, called("a", arguments=arguments), result("a"))
    assert asked["messages"][1]["content"][0]["input"] == given


async def test_ids_that_another_provider_gave_fit() -> None:
    asked = await sent(ASKED, called("call:1/é"), result("call:1/é"))
    use, answer = asked["messages"][1]["content"][0], asked["messages"][2]["content"][0]
    assert use["id"] == answer["tool_use_id"] == "call_1__"


async def test_the_window_and_the_longest_answer_are_the_providers() -> None:
    server = MessagesServer(window=100_000, longest=4_000)
    async with opened(server) as (_, model):
        assert (await model.prepare()).context_tokens == 100_000
        await model.complete(ModelRequest(messages=(ASKED,), max_output_tokens=9_000))
        await model.complete(ModelRequest(messages=(ASKED,)))
    assert [asked["max_tokens"] for asked in server.requests] == [4_000, 4_000]
    async with opened(server, context_tokens=50_000) as (_, model):
        assert (await model.prepare()).context_tokens == 50_000


async def test_a_server_that_lists_nothing_is_asked_all_the_same() -> None:
    async with opened(MessagesServer(has_list=False)) as (server, model):
        assert (await model.prepare()).context_tokens is None
        await model.require_listed()
        await model.complete(ModelRequest(messages=(ASKED,)))
    assert server.requests[0]["max_tokens"] == LONGEST_ANSWER


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_the_tokens_of_its_cache_are_part_of_what_was_read(*, is_streaming: bool) -> None:
    async with opened(manner=Manner(is_streaming=is_streaming)) as (server, model):
        reply = await model.complete(ModelRequest(messages=(ASKED,)))
    usage = reply.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (11, 3, 7)
    assert usage.written_tokens == 2
    assert reply.model == "tiny-2026"
    assert server.requests[0]["cache_control"] == {"type": "ephemeral"}


async def test_a_server_that_keeps_nothing_is_not_asked_to_nor_any_for_a_temperature() -> None:
    async with opened(manner=Manner(is_caching=False)) as (server, model):
        await model.complete(ModelRequest(messages=(ASKED,), temperature=0.7))
    assert not {"cache_control", "temperature"} & set(server.requests[0])


async def test_a_conversation_of_fifty_turns_begins_as_the_one_before() -> None:
    messages = [ASKED]
    for number in range(50):
        messages += [called(f"c{number}"), result(f"c{number}", "x" * 100)]
    async with opened() as (server, model):
        for count in (99, 101):
            await model.complete(ModelRequest(messages=tuple(messages[:count])))
    first, second = (asked["messages"] for asked in server.requests)
    assert len(second) == 101
    assert second[:99] == first


@pytest.mark.parametrize(
    ("event", "words", "retryable"),
    [
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "w"}}, "slow", True),
        ({"type": "error", "error": {"type": "invalid_request_error"}}, "answered 400", False),
        ({"type": "error", "error": "odd"}, "answered 500", True),
        ({"type": "message_stop"}, "ended in the middle", True),
        ([], "ended in the middle", True),
    ],
)
async def test_an_answer_that_goes_wrong_is_one_clear_error(
    event: object, words: str, *, retryable: bool
) -> None:
    class Odd(MessagesServer):
        def pieces(self, _cue: Any) -> list[bytes]:
            return [b"data: " + json.dumps(event).encode() + b"\n\n"]

        def endings(self, *_: Any) -> list[bytes]:
            return []

    async with opened(Odd()) as (_, model):
        with pytest.raises(ModelFailed, match=words) as caught:
            await model.complete(ModelRequest(messages=(ASKED,)))
    assert caught.value.retryable is retryable


async def test_a_whole_answer_without_content_is_said() -> None:
    class Odd(MessagesServer):
        def document(self, _cue: Any) -> dict[str, Any]:
            return {"type": "message"}

    async with opened(Odd(), manner=Manner(is_streaming=False)) as (_, model):
        with pytest.raises(ModelFailed, match="holds no content"):
            await model.complete(ModelRequest(messages=(ASKED,)))
