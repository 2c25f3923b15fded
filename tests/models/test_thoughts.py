"""What a model thought goes back to it unchanged, to no other, and is shown to nobody."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models import messages_server, responses_server
from models.messages_server import MessagesServer
from models.responses_server import ResponsesServer
from models.scenes import set_up
from models.servers import ChatServer
from patchyard.actors.reading import from_body, to_body
from patchyard.assembly import open_equipment
from patchyard.clients.http import HttpClient
from patchyard.contracts.model import Model
from patchyard.domain.errors import ModelFailed
from patchyard.domain.events import LimitsChanged
from patchyard.domain.messages import Message, ModelReply, ModelRequest, Speaker, Thought, Thoughts
from patchyard.models.chat_completions import ChatCompletionsModel
from patchyard.models.keys import Key
from patchyard.models.messages import Manner, MessagesModel
from patchyard.models.responses import Bearing, ResponsesModel
from patchyard.models.scripted import ScriptedReply
from patchyard.models.transcript import Placeholders, reply_data, reply_from
from patchyard.models.troubles import Provider

pytestmark = pytest.mark.anyio

FORMATS = ("messages", "responses")
SERVERS: dict[str, Any] = {"messages": MessagesServer, "responses": ResponsesServer}
GIVEN = {
    "messages": messages_server.thoughts(0),
    "responses": [responses_server.thought(0)],
}
ASKED = Message(speaker=Speaker.USER, text="u")
READ = ScriptedReply(text="I look.", calls=(("read_file", {"path": "a"}),))


@asynccontextmanager
async def opened(fmt: str, server: Any, *, name: str = "house") -> AsyncIterator[Model]:
    async with server.running() as url:
        provider = Provider(name=name, base_url=url, model="tiny", key=Key(variable=""))
        client = HttpClient(url)
        is_streaming = "whole" not in fmt
        model: Model = ChatCompletionsModel(provider, client)
        if fmt.startswith("messages"):
            model = MessagesModel(provider, client, manner=Manner(is_streaming=is_streaming))
        if fmt.startswith("responses"):
            bearing = Bearing(is_streaming=is_streaming)
            model = ResponsesModel(provider, client, bearing=bearing)
        yield model
        await model.close()


def after(reply: ModelReply) -> ModelRequest:
    """The request after a reply with one call."""
    result = Message(speaker=Speaker.TOOL, text="r", answers=reply.message.calls[0].id)
    return ModelRequest(messages=(ASKED, reply.message, result))


def sent_back(server: Any) -> list[Any]:
    """The thoughts in the last request, whatever its format."""
    asked = server.requests[-1]
    parts = asked.get("input") or [
        block for message in asked["messages"] for block in message["content"]
    ]
    kinds = {"reasoning", *messages_server.THOUGHTS}
    return [part for part in parts if isinstance(part, dict) and part.get("type") in kinds]


async def thought(fmt: str, *, name: str = "house") -> ModelReply:
    """A reply with its thoughts."""
    server = SERVERS[fmt.removesuffix("-whole")](is_thinking=True, answering=lambda _: READ)
    async with opened(fmt, server, name=name) as model:
        return await model.complete(ModelRequest(messages=(ASKED,)))


@pytest.mark.parametrize("fmt", ["messages", "messages-whole", "responses", "responses-whole"])
async def test_a_thought_goes_back_unchanged_and_is_not_told(fmt: str) -> None:
    bare = fmt.removesuffix("-whole")
    server = SERVERS[bare](is_thinking=True, answering=lambda _: READ)
    heard: list[str] = []
    async with opened(fmt, server) as model:
        reply = await model.complete(ModelRequest(messages=(ASKED,)), on_text=heard.append)
        await model.complete(after(reply))  # the server would refuse it without
    assert sent_back(server) == GIVEN[bare]
    assert "".join(heard) == reply.message.text == "I look."


@pytest.mark.parametrize("fmt", FORMATS)
async def test_it_lives_on_in_journal_and_recording(fmt: str) -> None:
    reply = await thought(fmt)
    assert reply.message.thoughts is not None
    journalled = from_body(json.loads(json.dumps(to_body(reply))))
    recorded = reply_from(json.loads(json.dumps(reply_data(reply, Placeholders()))), Placeholders())
    assert journalled.message == recorded.message == reply.message


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("other", ["chat", "messages", "responses"])
async def test_another_is_given_the_history_without_it(fmt: str, other: str) -> None:
    reply = await thought(fmt, name="elsewhere")
    server = {**SERVERS, "chat": ChatServer}[other]()
    async with opened(other, server) as model:
        await model.complete(after(reply))
    kept = server.bodies[-1].decode()
    assert "I look." in kept
    assert messages_server.SECRETLY not in kept
    assert "encrypted" not in kept.replace("reasoning.encrypted_content", "")


@pytest.mark.parametrize("fmt", FORMATS)
async def test_who_cannot_read_it_any_more_is_asked_without_it_from_then_on(fmt: str) -> None:
    reply = await thought(fmt)
    server = SERVERS[fmt](answering=lambda _: READ)  # that never gave it
    async with opened(fmt, server) as model:
        await model.complete(after(reply))
        server.is_thinking, server.forgotten = True, 1
        later = await model.complete(after(reply))
        assert len(server.requests) == 3
        assert sent_back(server) == []
        result = Message(speaker=Speaker.TOOL, text="r", answers=later.message.calls[0].id)
        talk = (*after(reply).messages, later.message, result)
        await model.complete(ModelRequest(messages=talk))
    assert len(server.requests) == 4
    assert len(sent_back(server)) == len(GIVEN[fmt])  # what came later is kept


async def test_a_model_that_has_no_thoughts_is_not_asked_for_them_again() -> None:
    server = ResponsesServer(has_no_thoughts=True)
    async with opened("responses", server) as model:
        for _ in range(2):
            await model.complete(ModelRequest(messages=(ASKED,)))
    assert [asked.get("include") for asked in server.requests] == [
        ["reasoning.encrypted_content"],
        None,
        None,
    ]


async def test_another_refusal_is_told_and_not_asked_again() -> None:
    server = ResponsesServer(faults=["policy"])
    async with opened("responses", server) as model:
        with pytest.raises(ModelFailed, match="content filter"):
            await model.complete(ModelRequest(messages=(ASKED,)))
    assert len(server.requests) == 1


@pytest.mark.parametrize("fmt", FORMATS)
async def test_a_thought_that_led_to_nothing_is_not_kept(fmt: str) -> None:
    server = SERVERS[fmt](is_thinking=True, faults=["empty"])
    async with opened(fmt, server) as model:
        reply = await model.complete(ModelRequest(messages=(ASKED,)))
    assert reply.message.thoughts is None


async def test_a_huge_thought_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchyard.models.answering.MOST_THOUGHT", 10)
    assert (await thought("messages")).message.thoughts is None


@pytest.mark.parametrize("fmt", ["responses", "responses-whole"])
async def test_what_a_text_was_to_its_model_goes_back_with_it(fmt: str) -> None:
    server = ResponsesServer(is_thinking=True, answering=lambda _: READ)
    async with opened(fmt, server) as model:
        reply = await model.complete(ModelRequest(messages=(ASKED,)))
        await model.complete(after(reply))
    (said,) = [item for item in server.requests[-1]["input"] if item.get("role") == "assistant"]
    assert (said["content"], said["phase"]) == ("I look.", "commentary")


async def test_a_thought_between_two_calls_keeps_its_place() -> None:
    reply = await thought("messages")
    (call,) = reply.message.calls
    block = json.dumps({"type": "redacted_thinking", "data": "x"})
    places = tuple(Thought(before=before, block=block) for before in (0, 1, 9))
    thoughts = Thoughts(maker="anthropic house:tiny", blocks=places)
    calls = (call, replace(call, id="b"))
    message = replace(reply.message, text=" ", calls=calls, thoughts=thoughts)
    results = [Message(speaker=Speaker.TOOL, answers=one.id) for one in calls]
    server = MessagesServer()  # it refuses them, and is asked without
    async with opened("messages", server) as model:
        await model.complete(ModelRequest(messages=(ASKED, message, *results)))
    kinds = [block["type"] for block in server.requests[0]["messages"][1]["content"]]
    assert kinds == ["redacted_thinking", "tool_use", *["redacted_thinking"] * 2, "tool_use"]


@pytest.mark.service("bubblewrap")
@pytest.mark.parametrize("fmt", FORMATS)
async def test_a_plan_that_is_resumed_and_one_that_is_played_back_have_them_too(
    fmt: str, tmp_path: Path
) -> None:
    scene = set_up(fmt, tmp_path)
    scene.be_well()
    assert hasattr(scene.server, "is_thinking")
    scene.server.is_thinking = True
    talk = str(tmp_path / "talk")
    async with scene.server.running() as url:
        environ = scene.configure(url)
        stopped = await scene.carry(environ, steps=3, record_to=talk)
        assert stopped.error is not None
        async with open_equipment(environ) as equipment:
            ledger = await scene.site.ledger(equipment, stopped.plan_id)
            await ledger.record(LimitsChanged(limits=replace(ledger.state.limits, steps=9)))
        resumed = await scene.carry(environ, stopped.plan_id)
    assert resumed.error is None, resumed.words
    assert len(sent_back(scene.server)) >= 2
    assert messages_server.SECRETLY not in "".join(scene.heard)
    played = await scene.carry(environ, model=f"recorded:{talk}")
    assert played.error is None, played.words
