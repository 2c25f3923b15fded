"""Whatever goes wrong at a provider ends in one clear error, the same for each wire format."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from models.loopback import LoopbackServer
from models.messages_server import MessagesServer
from models.ollama_server import OllamaServer
from models.responses_server import ResponsesServer
from models.servers import ChatServer
from network.hosts import hosting
from patchyard.clients.http import HttpClient, Waits
from patchyard.contracts.model import Model
from patchyard.domain.errors import ModelFailed, ModelUnavailable, PatchyardError
from patchyard.domain.messages import Message, ModelRequest, Speaker, StopReason
from patchyard.models.chat_completions import ChatCompletionsModel, Dialect
from patchyard.models.keys import Key
from patchyard.models.messages import Manner, MessagesModel
from patchyard.models.ollama import Loading, OllamaModel
from patchyard.models.responses import Bearing, ResponsesModel
from patchyard.models.scripted import ScriptedReply
from patchyard.models.troubles import Provider

pytestmark = pytest.mark.anyio

SECRET = "sk-this-is-a-secret-0123456789"
ASKED = ModelRequest(messages=(Message(speaker=Speaker.USER, text="hi"),), max_output_tokens=1000)
PATIENT = Waits(connect_s=60, first_byte_s=60, idle_s=60)
SOON = Waits(connect_s=60, first_byte_s=60, idle_s=1)  # for a server that falls silent


def provider(url: str, *, name: str = "tiny", variable: str = "HOUSE_KEY") -> Provider:
    key = Key(variable=variable, environ={"HOUSE_KEY": SECRET})
    return Provider(name="house", base_url=url, model=name, key=key)


def chat_model(url: str, *, waits: Waits = PATIENT, **more: Any) -> ChatCompletionsModel:
    dialect = Dialect(is_streaming=more.pop("is_streaming", True))
    return ChatCompletionsModel(
        provider(url, **more), HttpClient(url, waits=waits), dialect=dialect
    )


def ollama_model(url: str, *, waits: Waits = PATIENT, **more: Any) -> OllamaModel:
    loading = Loading(is_streaming=more.pop("is_streaming", True), poll_s=0.01)
    return OllamaModel(provider(url, **more), HttpClient(url, waits=waits), loading=loading)


def messages_model(url: str, *, waits: Waits = PATIENT, **more: Any) -> MessagesModel:
    manner = Manner(is_streaming=more.pop("is_streaming", True))
    return MessagesModel(provider(url, **more), HttpClient(url, waits=waits), manner=manner)


def responses_model(url: str, *, waits: Waits = PATIENT, **more: Any) -> ResponsesModel:
    bearing = Bearing(is_streaming=more.pop("is_streaming", True))
    return ResponsesModel(provider(url, **more), HttpClient(url, waits=waits), bearing=bearing)


SPEAKERS: dict[str, tuple[type[LoopbackServer], Any]] = {
    "chat": (ChatServer, chat_model),
    "messages": (MessagesServer, messages_model),
    "ollama": (OllamaServer, ollama_model),
    "responses": (ResponsesServer, responses_model),
}
CLIENT_ERRORS = (400, 405, 409, 410, 415, 418, 422, 431, 451)
PASSING = (408, 429, 500, 502, 503, 504, 529)
KEYED = ("chat", "messages", "responses")  # formats of providers that need a key


@asynccontextmanager
async def broken(
    fmt: str, *faults: str, tls: ssl.SSLContext | None = None, **more: Any
) -> AsyncIterator[tuple[Any, Model]]:
    kind, build = SPEAKERS[fmt]
    answer = ScriptedReply(text="one two three four five six seven")
    server = kind(answering=lambda _: answer, faults=list(faults), tls=tls)
    async with server.running() as url:
        model = build(url, **more)
        yield server, model
        await model.close()


@pytest.mark.parametrize("fmt", SPEAKERS)
@pytest.mark.parametrize(
    ("fault", "words", "retryable"),
    [
        ("cut", "ended in the middle", True),
        ("silent", "sent nothing for 1 s", True),
        ("drop", "ended in the middle", True),
        ("server-error", "answered 500", True),
        ("late-error", "answered 5", True),
        ("too-long", "too long", False),
    ],
)
async def test_a_broken_answer_is_one_error_that_says_whether_to_ask_again(
    fmt: str, fault: str, words: str, *, retryable: bool
) -> None:
    async with broken(fmt, fault, waits=SOON if fault == "silent" else PATIENT) as (_, model):
        with pytest.raises(ModelFailed, match=words) as caught:
            await model.complete(ASKED)
        assert caught.value.retryable is retryable
        assert (await model.complete(ASKED)).message.text.startswith("one two")


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_an_endless_answer_is_cut_and_the_connection_closed(fmt: str) -> None:
    async with broken(fmt, "endless") as (server, model):
        reply = await model.complete(ASKED)
        assert reply.stop is StopReason.LENGTH
        assert len(reply.message.text) < 10_000
        assert reply.usage.is_estimated
        async with asyncio.timeout(60):
            await server.gone.wait()


@pytest.mark.parametrize("fmt", SPEAKERS)
@pytest.mark.parametrize("is_streaming", [True, False])
async def test_an_empty_answer_is_an_empty_reply(fmt: str, *, is_streaming: bool) -> None:
    async with broken(fmt, "empty", is_streaming=is_streaming) as (_, model):
        reply = await model.complete(ASKED)
    assert reply.message.text == ""
    assert reply.message.calls == ()
    assert reply.stop is StopReason.DONE


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_a_model_that_is_not_there_is_named_with_a_cure(fmt: str) -> None:
    async with broken(fmt, name="nothing") as (_, model):
        with pytest.raises(ModelUnavailable, match="nothing") as caught:
            await model.complete(ASKED)
    assert "`" in caught.value.hint


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_a_refused_key_is_named_by_its_variable_and_never_shown(fmt: str) -> None:
    kind, build = SPEAKERS[fmt]
    server = kind(key="another-key")
    async with server.running() as url:
        model = build(url)
        with pytest.raises(ModelUnavailable, match="refused the key") as caught:
            await model.complete(ASKED)
        await model.close()
    assert "HOUSE_KEY" in caught.value.hint
    assert SECRET not in everything(caught.value)
    assert SECRET not in repr(vars(model))


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_no_key_reaches_an_error_of_the_connection(fmt: str) -> None:
    async with broken(fmt, "drop") as (_, model):
        with pytest.raises(ModelFailed) as caught:
            await model.complete(ASKED)
    assert SECRET not in everything(caught.value)


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_nobody_listening_is_said_with_the_address(fmt: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        model = SPEAKERS[fmt][1](url)
        with pytest.raises(ModelUnavailable, match="nothing answers there") as caught:
            await model.complete(ASKED)
        await model.close()
    assert url in caught.value.message


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_an_unknown_host_is_said(fmt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    model = SPEAKERS[fmt][1]("http://models.invalid")
    with pytest.raises(ModelUnavailable, match="host is not known"):
        await model.complete(ASKED)
    await model.close()


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_a_first_byte_that_never_comes_is_a_time_out(fmt: str) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    model = SPEAKERS[fmt][1](url, waits=Waits(connect_s=60, first_byte_s=0.1, idle_s=60))
    with pytest.raises(ModelFailed, match="no answer in time") as caught:
        await model.complete(ASKED)
    assert caught.value.retryable
    await model.close()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_cancelling_closes_the_connection(fmt: str) -> None:
    async with broken(fmt, "silent", waits=Waits(idle_s=60)) as (server, model):
        asking = asyncio.create_task(model.complete(ASKED))
        await server.asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        async with asyncio.timeout(60):
            await server.gone.wait()


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_one_connection_serves_many_requests(fmt: str) -> None:
    async with broken(fmt) as (server, model):
        for _ in range(4):
            await model.complete(ASKED)
        assert server.connections == 1


@pytest.mark.parametrize(
    ("fmt", "money"),
    [
        ("chat", "no money"),
        ("messages", "credit balance is too low"),
        ("responses", "no money"),
    ],
)
async def test_slowing_down_says_how_long_and_no_money_is_not_asked_again(
    fmt: str, money: str
) -> None:
    async with broken(fmt, "busy", "no-quota", "policy") as (_, model):
        with pytest.raises(ModelFailed) as busy:
            await model.complete(ASKED)
        assert busy.value.retryable
        assert busy.value.details["retry_after_s"] == 7
        for words in (money, "content filter"):
            with pytest.raises(ModelFailed, match=words) as caught:
                await model.complete(ASKED)
            assert not caught.value.retryable


@pytest.mark.parametrize("fmt", KEYED)
async def test_an_answer_that_is_no_json_is_said(fmt: str) -> None:
    async with broken(fmt, "garbage", is_streaming=False) as (_, model):
        with pytest.raises(ModelFailed, match="no JSON"):
            await model.complete(ASKED)


@pytest.mark.parametrize("fmt", KEYED)
async def test_the_content_filter_is_a_reason_for_stopping(fmt: str) -> None:
    async with broken(fmt, "filtered") as (_, model):
        assert (await model.complete(ASKED)).stop is StopReason.FILTERED


@pytest.mark.parametrize("fmt", KEYED)
async def test_a_missing_key_is_refused_before_anything_is_sent(fmt: str) -> None:
    kind, build = SPEAKERS[fmt]
    server: LoopbackServer = kind()
    async with server.running() as url:
        model = build(url, variable="NOT_SET")
        with pytest.raises(ModelUnavailable, match="needs a key") as caught:
            await model.prepare()
        await model.close()
    assert "NOT_SET" in caught.value.hint
    assert server.requests == []


async def test_missing_usage_is_estimated_and_said_to_be() -> None:
    server = ChatServer(states_usage=False, ends_with_done=False)
    async with server.running() as url:
        model = chat_model(url)
        reply = await model.complete(ASKED)
        assert await model.offered() == ("tiny",)
        await model.close()
    assert reply.usage.is_estimated
    assert reply.usage.output_tokens > 0
    assert reply.model == "tiny-2026"


def everything(error: BaseException) -> str:
    """All that an error and its causes say of themselves."""
    said: list[str] = []
    open_: list[BaseException | None] = [error]
    while open_:
        one = open_.pop()
        if one is None:
            continue
        said += [repr(one), str(one), repr(vars(one))]
        request = getattr(one, "_request", None)
        said += [repr(list(request.headers.raw))] if request is not None else []
        said += [str(one.details)] if isinstance(one, PatchyardError) else []
        open_ += [one.__cause__, one.__context__]
    return "\n".join(said)


@pytest.mark.parametrize(
    ("status", "words", "retryable"),
    [
        *((each, "temporarily unavailable: timeout, try again", False) for each in CLIENT_ERRORS),
        *((each, "bad request: invalid, unauthorized, forbidden", True) for each in PASSING),
    ],
)
async def test_whether_to_ask_again_is_told_by_the_status_whatever_the_words_are(
    status: int, words: str, *, retryable: bool
) -> None:
    body = json.dumps({"error": {"message": words}}).encode()
    with hosting() as host:
        host.say("/v1/chat/completions", body, status=status)
        model = chat_model(f"http://{host.place}/v1")
        with pytest.raises(ModelFailed, match=words[:11]) as caught:
            await model.complete(ASKED)
        await model.close()
    assert caught.value.retryable is retryable
    assert len(host.seen) == 1
