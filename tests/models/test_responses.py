"""The responses format where it is unlike the others: items, what is said of errors, its cache."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from models.loopback import Cue
from models.responses_server import ResponsesServer
from patchyard.clients.http import HttpClient
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.messages import Message, ModelRequest, RequestedCall, Speaker, StopReason
from patchyard.models.keys import Key
from patchyard.models.responses import Bearing, ResponsesModel
from patchyard.models.scripted import ScriptedReply
from patchyard.models.troubles import Provider

pytestmark = pytest.mark.anyio

ASKED = Message(speaker=Speaker.USER, text="u")
CALL = RequestedCall(id="a", name="read_file", arguments="{}")


@asynccontextmanager
async def opened(
    server: ResponsesServer | None = None, **more: Any
) -> AsyncIterator[tuple[ResponsesServer, ResponsesModel]]:
    server = server or ResponsesServer()
    async with server.running() as url:
        provider = Provider(name="house", base_url=url, model="tiny", key=Key(variable=""))
        model = ResponsesModel(provider, HttpClient(url), **more)
        yield server, model
        await model.close()


async def sent(*messages: Message, **more: Any) -> dict[str, Any]:
    """What the server gets for a conversation, which it accepts."""
    async with opened() as (server, model):
        await model.complete(ModelRequest(messages=messages, **more))
    (asked,) = server.requests
    return asked


async def test_a_conversation_is_a_list_of_items_and_none_of_it_stays_behind() -> None:
    asked = await sent(
        Message(speaker=Speaker.SYSTEM, text="s"),
        ASKED,
        Message(speaker=Speaker.ASSISTANT, text="t", calls=(CALL,)),
        Message(speaker=Speaker.TOOL, text="", answers="a"),
        Message(speaker=Speaker.ASSISTANT),
        Message(speaker=Speaker.USER, text="again"),
    )
    assert asked["input"] == [
        {"type": "message", "role": "system", "content": "s"},
        {"type": "message", "role": "user", "content": "u"},
        {"type": "message", "role": "assistant", "content": "t"},
        {"type": "function_call", "call_id": "a", "name": "read_file", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": ""},
        {"type": "message", "role": "user", "content": "again"},
    ]
    assert asked["store"] is False
    assert "previous_response_id" not in asked


@pytest.mark.parametrize(("wanted", "said"), [(9_000, 9_000), (5, 16)])
async def test_the_longest_answer_is_said_as_the_format_takes_it(wanted: int, said: int) -> None:
    asked = await sent(ASKED, max_output_tokens=wanted, temperature=0.5)
    assert (asked["max_output_tokens"], asked["temperature"]) == (said, 0.5)


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_the_tokens_of_its_cache_are_part_of_what_was_read(*, is_streaming: bool) -> None:
    async with opened(bearing=Bearing(is_streaming=is_streaming)) as (_, model):
        reply = await model.complete(ModelRequest(messages=(ASKED,)))
    usage = reply.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (11, 3, 7)
    assert usage.written_tokens == 2
    assert reply.model == "tiny-2026"


class Odd(ResponsesServer):
    """Says what it is given, whatever the description says."""

    events: tuple[object, ...] = ()
    whole: Any = None

    def pieces(self, _cue: Cue) -> list[bytes]:
        return [b"data: " + json.dumps(event).encode() + b"\n\n" for event in self.events]

    def endings(self, _cue: Cue) -> list[bytes]:
        return []

    def document(self, _cue: Cue) -> Any:
        return self.whole


def odd(*events: object, whole: Any = None) -> Odd:
    server = Odd()
    server.events, server.whole = events, whole
    return server


def failed(code: str, words: str = "w") -> dict[str, Any]:
    error = {"code": code, "message": words}
    return {"type": "response.failed", "response": {"status": "failed", "error": error}}


@pytest.mark.parametrize(
    ("event", "words", "retryable"),
    [
        (failed("rate_limit_exceeded"), "slow", True),
        (failed("server_error"), "answered 500", True),
        (failed("invalid_prompt"), "answered 400", False),
        (failed("bio_policy"), "content filter", False),
        (failed("context_length_exceeded"), "too long", False),
        ({"type": "error", "code": "insufficient_quota", "message": "m"}, "no credit", False),
        ({"type": "error", "error": {"type": "rate_limit_exceeded"}}, "slow", True),
        ({"error": "odd"}, "answered 500", True),
        ({"type": "response.completed.not"}, "ended in the middle", True),
        ([], "ended in the middle", True),
    ],
)
async def test_an_answer_that_goes_wrong_is_one_clear_error(
    event: object, words: str, *, retryable: bool
) -> None:
    async with opened(odd(event)) as (_, model):
        with pytest.raises(ModelFailed) as caught:
            await model.complete(ModelRequest(messages=(ASKED,)))
    assert words in f"{caught.value.message} | {caught.value.hint}"
    assert caught.value.retryable is retryable


async def test_a_key_that_is_refused_late_is_said_as_one() -> None:
    async with opened(odd(failed("invalid_api_key"))) as (_, model):
        with pytest.raises(ModelUnavailable, match="refused the key"):
            await model.complete(ModelRequest(messages=(ASKED,)))


@pytest.mark.parametrize(
    ("whole", "words"),
    [
        ({"status": "completed"}, "holds no output"),
        ({"status": "failed", "error": {"code": "server_error"}}, "answered 500"),
        ({"status": "cancelled", "error": None}, "answered 500"),
    ],
)
async def test_a_whole_answer_that_is_none_is_said(whole: Any, words: str) -> None:
    async with opened(odd(whole=whole), bearing=Bearing(is_streaming=False)) as (_, model):
        with pytest.raises(ModelFailed, match=words):
            await model.complete(ModelRequest(messages=(ASKED,)))


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("max_output_tokens", StopReason.LENGTH), ("content_filter", StopReason.FILTERED)],
)
async def test_an_answer_that_is_cut_says_why(reason: str, stop: StopReason) -> None:
    whole = {"status": "incomplete", "incomplete_details": {"reason": reason}, "output": []}
    cut = {"type": "response.incomplete", "response": whole}
    async with opened(odd(cut)) as (_, model):
        assert (await model.complete(ModelRequest(messages=(ASKED,)))).stop is stop
    async with opened(odd(whole=whole), bearing=Bearing(is_streaming=False)) as (_, model):
        assert (await model.complete(ModelRequest(messages=(ASKED,)))).stop is stop


THOUGHT = {"type": "reasoning", "id": "r", "summary": [{"text": "aloud"}], "content": 7}
REFUSED = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}
CALLED = {"type": "function_call", "call_id": "c", "name": "finish", "arguments": '{"a": 1}'}


async def test_a_refusal_is_text_and_a_thought_is_not() -> None:
    events = (
        {"type": "response.reasoning_summary_text.delta", "delta": "aloud"},
        {"type": "response.refusal.delta", "delta": "I will not."},
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    )
    whole = {"status": "completed", "output": [THOUGHT, REFUSED, {"type": "other"}, "odd"]}
    for server, is_streaming in ((odd(*events), True), (odd(whole=whole), False)):
        async with opened(server, bearing=Bearing(is_streaming=is_streaming)) as (_, model):
            reply = await model.complete(ModelRequest(messages=(ASKED,)))
        assert (reply.message.text, reply.stop) == ("I will not.", StopReason.DONE)


async def test_a_call_whose_pieces_do_not_come_is_taken_whole() -> None:
    begun = {"type": "response.output_item.added", "output_index": 1, "item": CALLED}
    done = {"type": "response.output_item.done", "output_index": 1, "item": CALLED}
    end = {"type": "response.completed", "response": {"status": "completed", "output": [CALLED]}}
    async with opened(odd(begun, done, end)) as (_, model):
        reply = await model.complete(ModelRequest(messages=(ASKED,)))
    assert reply.message.calls == (RequestedCall(id="c", name="finish", arguments='{"a": 1}'),)
    assert reply.stop is StopReason.CALLS


async def test_a_conversation_of_fifty_turns_begins_as_the_one_before() -> None:
    messages = [ASKED]
    for number in range(50):
        call = RequestedCall(id=f"c{number}", name="read_file", arguments="{}")
        messages.append(Message(speaker=Speaker.ASSISTANT, calls=(call,)))
        messages.append(Message(speaker=Speaker.TOOL, text="x", answers=call.id))
    server = ResponsesServer(answering=lambda turn: ScriptedReply(text=f"turn {turn}"))
    async with opened(server) as (_, model):
        for count in (99, 101):
            reply = await model.complete(ModelRequest(messages=tuple(messages[:count])))
    assert reply.message.text == "turn 50"
    first, second = (asked["input"] for asked in server.requests)
    assert len(second) == 101
    assert second[:99] == first
