"""Answers that real servers give although no description allows them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from models.loopback import Json, LoopbackServer, Peer, Refusal
from patchyard.clients.http import HttpClient
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.messages import Message, ModelRequest, Speaker, StopReason
from patchyard.models.chat_completions import ChatCompletionsModel
from patchyard.models.keys import Key, hide
from patchyard.models.troubles import Provider

pytestmark = pytest.mark.anyio

ASKED = ModelRequest(messages=(Message(speaker=Speaker.USER, text="hi"),))


@dataclass(kw_only=True)
class OddServer(LoopbackServer):
    """Answers everything with the same bytes, or refuses everything."""

    body: bytes = b""
    refusal: Refusal | None = None

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        self.requests.append({"method": method, "path": path, **data})
        if self.refusal:
            raise self.refusal
        await peer.begin("text/event-stream")
        await peer.chunk(self.body)
        await peer.end()
        return True


@asynccontextmanager
async def asking(server: OddServer, *, variable: str = "") -> AsyncIterator[ChatCompletionsModel]:
    async with server.running() as url:
        provider = Provider(name="odd", base_url=url, model="m", key=Key(variable=variable))
        model = ChatCompletionsModel(provider, HttpClient(url))
        yield model
        await model.close()


def stream(*deltas: dict[str, Any], reason: str = "stop", end: bytes = b"data: [DONE]") -> bytes:
    chunks: list[dict[str, Any]] = [{"choices": [{"delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": reason}]})
    return b"".join(b"data: " + json.dumps(c).encode() + b"\n\n" for c in chunks) + end


def piece(id_: str | None, **function: Any) -> dict[str, Any]:
    return {"tool_calls": [{"id": id_, "function": function}]}


async def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    body = stream(
        piece("a", name="one", arguments='{"x"'),
        piece(None, arguments=": 1}"),
        piece("b", name="two", arguments={"y": 2}),
        {"tool_calls": ["junk", {"function": "junk"}]},
        {"content": 7, "tool_calls": "junk"},
    )
    async with asking(OddServer(body=body)) as model:
        reply = await model.complete(ASKED)
    assert [(call.name, call.arguments) for call in reply.message.calls] == [
        ("one", '{"x": 1}'),
        ("two", '{"y": 2}'),
    ]
    assert reply.stop is StopReason.CALLS


async def test_thinking_is_not_part_of_the_answer_and_bytes_without_an_end_are_read() -> None:
    body = stream({"reasoning_content": "hm"}, {"content": "yes"}, end=b"data: [DONE]\r")
    async with asking(OddServer(body=body)) as model:
        assert (await model.complete(ASKED)).message.text == "yes"


LONG = stream({"content": "y" * 400})


@pytest.mark.parametrize(
    ("stated", "asked", "said", "is_estimated"),
    [
        ({"prompt_tokens": 11, "completion_tokens": 90}, 11, 90, False),
        ({"prompt_tokens": 11.0, "completion_tokens": 90.0}, 11, 90, False),
        ({"prompt_tokens": -5, "completion_tokens": "90"}, 1, 101, True),
        ({"prompt_tokens": 10**15, "completion_tokens": 10**15}, 1, 101, True),
        ({"prompt_tokens": True, "completion_tokens": [1]}, 1, 101, True),
        ({"prompt_tokens": 0, "completion_tokens": 0}, 1, 101, True),
        ({"prompt_tokens": 1e400, "completion_tokens": float("nan")}, 1, 101, True),
        ({}, 1, 101, True),
        ("lies", 1, 101, True),
    ],
)
async def test_a_usage_that_cannot_be_is_counted_from_sizes(
    stated: Any, asked: int, said: int, *, is_estimated: bool
) -> None:
    usage = b"data: " + json.dumps({"choices": [], "usage": stated}).encode() + b"\n\n"
    async with asking(OddServer(body=usage + LONG)) as model:
        found = (await model.complete(ASKED)).usage
    assert (found.input_tokens, found.output_tokens) == (asked, said)
    assert found.is_estimated is is_estimated


async def test_more_cached_tokens_than_were_asked_are_as_many_as_were_asked() -> None:
    details = {"cached_tokens": 900, "cache_write_tokens": 900}
    stated = {"prompt_tokens": 11, "prompt_tokens_details": details}
    body = b"data: " + json.dumps({"choices": [], "usage": stated}).encode() + b"\n\n" + LONG
    async with asking(OddServer(body=body)) as model:
        assert (await model.complete(ASKED)).usage.cached_tokens == 11


async def test_a_text_in_parts_is_put_together() -> None:
    parts = [{"type": "text", "text": "one "}, "junk", {"type": "text", "text": "two"}]
    async with asking(OddServer(body=stream({"content": parts}))) as model:
        assert (await model.complete(ASKED)).message.text == "one two"


async def test_an_unknown_reason_for_stopping_is_an_end() -> None:
    async with asking(OddServer(body=stream({"content": "x"}, reason="eos"))) as model:
        assert (await model.complete(ASKED)).stop is StopReason.DONE


@pytest.mark.parametrize("body", [b"data: nonsense\n\n", b"data: []\n\ndata: {}\n\n", b""])
async def test_a_stream_of_nonsense_is_a_failure_to_ask_again(body: bytes) -> None:
    async with asking(OddServer(body=body)) as model:
        with pytest.raises(ModelFailed) as caught:
            await model.complete(ASKED)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("status", "body", "words", "kind"),
    [
        (400, {"error": "plain words"}, "plain words", ModelFailed),
        (418, {"detail": "teapot"}, "teapot", ModelFailed),
        (301, {}, "answered 301", ModelFailed),
        (403, {"error": {"message": "no"}}, "refused the key", ModelUnavailable),
        (
            502,
            b"<html><style>b { c: d }</style><h1>Bad\n Gateway</h1></html>",
            *("answered 502: Bad Gateway", ModelFailed),
        ),
    ],
)
async def test_any_refusal_is_said_in_the_providers_words(
    status: int, body: Json, words: str, kind: type[Exception]
) -> None:
    async with asking(OddServer(refusal=Refusal(status, body))) as model:
        with pytest.raises(kind, match=words):
            await model.complete(ASKED)
        with pytest.raises(kind):
            await model.offered()


async def test_a_refused_key_without_a_variable_says_where_to_name_one() -> None:
    server = OddServer(refusal=Refusal(401, {}))
    for variable, words in (("", "api_key_env"), ("ODD_KEY", "into the variable ODD_KEY")):
        async with asking(server, variable=variable) as model:
            with pytest.raises(ModelUnavailable) as caught:
                await model.complete(ASKED)
        assert words in caught.value.hint


async def test_an_address_that_is_none_is_said() -> None:
    provider = Provider(name="odd", base_url="nowhere", model="m", key=Key(variable=""))
    async with HttpClient("nowhere") as client:
        with pytest.raises(ModelUnavailable, match="no address"):
            await ChatCompletionsModel(provider, client).complete(ASKED)


def test_keys_are_hidden_by_value_and_by_shape() -> None:
    key = Key(variable="K", environ={"K": "my-very-own-key"})
    assert key.hide("it is my-very-own-key") == "it is [hidden]"
    assert hide("ghp_" + "a" * 30) == "[hidden]"
    assert hide("abc", ("abc",)) == "abc"
    assert "my-very-own-key" not in repr(key)
