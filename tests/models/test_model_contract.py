"""One behaviour for all models: each wire format, streaming and not, recorded and scripted."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from models.loopback import Answering
from models.messages_server import MessagesServer
from models.ollama_server import OllamaServer
from models.responses_server import ResponsesServer
from models.servers import ChatServer
from models.wordy import Wordy, written
from patchyard.actors.model import ModelActor
from patchyard.clients.http import HttpClient, Waits
from patchyard.contracts.actor import Answered, Brief, Turn
from patchyard.contracts.model import Model
from patchyard.contracts.provider import ModelProvider, TaskAction, TaskRequest, TaskResponse
from patchyard.domain.messages import (
    Message,
    ModelReply,
    ModelRequest,
    RequestedCall,
    Speaker,
    StopReason,
)
from patchyard.domain.tooling import Effect, ToolResult, ToolSpec
from patchyard.models.chat_completions import ChatCompletionsModel, Dialect
from patchyard.models.keys import Key
from patchyard.models.messages import Manner, MessagesModel
from patchyard.models.ollama import Loading, OllamaModel
from patchyard.models.provided import ProvidedModel
from patchyard.models.recorded import RecordedModel, RecordingModel
from patchyard.models.responses import Bearing, ResponsesModel
from patchyard.models.scripted import ScriptedModel, ScriptedReply
from patchyard.models.texted import TextedModel
from patchyard.models.transcript import Placeholders
from patchyard.models.troubles import Provider

pytestmark = pytest.mark.anyio

READ = ToolSpec(
    name="read_file",
    description="Read.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
    effect=Effect.READ,
)
WRITE = ToolSpec(
    name="write_file",
    description="Write.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
    effect=Effect.WRITE,
)
WAITS = Waits(connect_s=60, first_byte_s=60, idle_s=60)

REPLIES = (
    ScriptedReply(
        text="I look at bóth filés.",
        calls=(("read_file", {"path": "a.py"}), ("read_file", {"path": 'ü "x".py'})),
    ),
    ScriptedReply(calls=(("write_file", {"path": "a.py", "content": "line\n" * 40}),)),
    ScriptedReply(text="", calls=(("finish", {"summary": "done ✓"}),)),
)


def by_turn(turn: int) -> ScriptedReply:
    return REPLIES[turn]


Opening = Callable[[Answering, Path], Any]


def house(url: str) -> Provider:
    key = Key(variable="HOUSE_KEY", environ={"HOUSE_KEY": "sk-test"})
    return Provider(name="house", base_url=url, model="tiny", key=key)


@asynccontextmanager
async def chat(
    answering: Answering, _folder: Path, *, is_streaming: bool = True
) -> AsyncIterator[Model]:
    server = ChatServer(answering=answering, key="sk-test")
    async with server.running() as url:
        model = ChatCompletionsModel(
            house(url), HttpClient(url, waits=WAITS), dialect=Dialect(is_streaming=is_streaming)
        )
        yield model
        await model.close()


@asynccontextmanager
async def ollama(
    answering: Answering, _folder: Path, *, is_streaming: bool = True
) -> AsyncIterator[Model]:
    async with OllamaServer(answering=answering).running() as url:
        provider = Provider(name="ollama", base_url=url, model="tiny", key=Key(variable=""))
        model = OllamaModel(
            provider, HttpClient(url, waits=WAITS), loading=Loading(is_streaming=is_streaming)
        )
        yield model
        await model.close()


@asynccontextmanager
async def messages(
    answering: Answering, _folder: Path, *, is_streaming: bool = True
) -> AsyncIterator[Model]:
    async with MessagesServer(answering=answering, key="sk-test").running() as url:
        model = MessagesModel(
            house(url), HttpClient(url, waits=WAITS), manner=Manner(is_streaming=is_streaming)
        )
        yield model
        await model.close()


@asynccontextmanager
async def responses(
    answering: Answering, _folder: Path, *, is_streaming: bool = True
) -> AsyncIterator[Model]:
    async with ResponsesServer(answering=answering, key="sk-test").running() as url:
        model = ResponsesModel(
            house(url), HttpClient(url, waits=WAITS), bearing=Bearing(is_streaming=is_streaming)
        )
        yield model
        await model.close()


@asynccontextmanager
async def texted(answering: Answering, _folder: Path) -> AsyncIterator[Model]:
    server = Wordy(answering=lambda turn: written(answering(turn)), key="sk-test")
    async with server.running() as url:
        model = TextedModel(ChatCompletionsModel(house(url), HttpClient(url, waits=WAITS)))
        yield model
        await model.close()


@asynccontextmanager
async def scripted(answering: Answering, _folder: Path) -> AsyncIterator[Model]:
    yield ScriptedModel(answering=lambda request: answering(request.turn))


class OfOthers:
    """A provider as another program would write it."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    async def execute_task(self, request: TaskRequest) -> TaskResponse:
        reply = self._answering(request.turn)
        actions = tuple(TaskAction(name=name, arguments=said) for name, said in reply.calls)
        return TaskResponse(text=reply.text, actions=actions)

    def supports_tools(self) -> bool:
        return True

    def supports_mcp(self) -> bool:
        return True

    def get_capabilities(self) -> list[str]:
        return []


@asynccontextmanager
async def provided(answering: Answering, _folder: Path) -> AsyncIterator[Model]:
    async def bring() -> ModelProvider:
        return OfOthers(answering)

    yield ProvidedModel("others:tiny", bring, is_owned=True, answer_s=60)


@asynccontextmanager
async def recorded(answering: Answering, folder: Path) -> AsyncIterator[Model]:
    file = folder / "talk.jsonl"
    async with chat(answering, folder) as model:
        recording = RecordingModel(
            model, file, places=Placeholders(workspace="/w"), environment="process", plan="p"
        )
        await drive(recording)
        await recording.close()
    yield RecordedModel(file, places=Placeholders(workspace="/w"))


OPENINGS: dict[str, Opening] = {
    "chat": chat,
    "chat-whole": lambda a, f: chat(a, f, is_streaming=False),
    "messages": messages,
    "messages-whole": lambda a, f: messages(a, f, is_streaming=False),
    "ollama": ollama,
    "ollama-whole": lambda a, f: ollama(a, f, is_streaming=False),
    "responses": responses,
    "responses-whole": lambda a, f: responses(a, f, is_streaming=False),
    "scripted": scripted,
    "texted": texted,
    "provided": provided,
    "recorded": recorded,
}


@pytest.fixture(params=sorted(OPENINGS))
async def model(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Model]:
    async with OPENINGS[request.param](by_turn, tmp_path) as made:
        yield made


async def drive(model: Model) -> list[Turn]:
    """Carry a small task out; what comes back must not depend on the kind of model."""
    brief = Brief(
        plan_id="p",
        phase="execute",
        task="Mend it",
        workspace_path="/w",
        environment="process",
        tools=(READ, WRITE),
    )
    session = await ModelActor(model=model).begin(brief)
    turns: list[Turn] = []
    answers: list[Answered] = []
    while not turns or not turns[-1].is_final:
        turns.append(await session.next(answers))
        answers = [
            Answered(
                ref=wanted.ref,
                name=wanted.name,
                result=ToolResult(call_id=f"id-{wanted.ref}", success=True, message="ok"),
                text=f"content of {wanted.name} \udcff\x00",
            )
            for wanted in turns[-1].calls
        ]
    return turns


async def test_a_task_takes_the_same_turns_whatever_carries_the_words(model: Model) -> None:
    turns = await drive(model)
    said = [(turn.text, [(c.name, dict(c.arguments or {})) for c in turn.calls]) for turn in turns]
    assert said == [
        (REPLIES[0].text, [(name, arguments) for name, arguments in REPLIES[0].calls]),
        (REPLIES[1].text, [(name, arguments) for name, arguments in REPLIES[1].calls]),
        ("", []),
    ]
    assert turns[-1].summary == "done ✓"


async def test_each_reply_says_how_many_tokens_it_took(model: Model) -> None:
    turns = await drive(model)
    assert turns
    for turn in turns:
        assert turn.usage is not None
        assert turn.usage.input_tokens > 0
        assert turn.usage.output_tokens > 0


async def test_text_comes_in_pieces_that_make_up_the_answer(model: Model) -> None:
    heard: list[str] = []
    await drive(_Hearing(model, heard))
    assert "".join(heard) == REPLIES[0].text


async def test_facts_name_the_model_before_and_after_preparing(model: Model) -> None:
    assert ":" in model.facts.name
    assert (await model.prepare()).name == model.facts.name


@pytest.mark.parametrize("name", sorted(set(OPENINGS) - {"recorded"}))
async def test_replies_hold_calls_with_ids_and_the_reason_for_stopping(
    name: str, tmp_path: Path
) -> None:
    async with OPENINGS[name](by_turn, tmp_path) as model:
        await model.prepare()
        reply = await model.complete(ModelRequest(messages=_asked(), tools=(READ, WRITE)))
    assert reply.stop is StopReason.CALLS
    ids = [call.id for call in reply.message.calls]
    assert all(ids)
    assert len(set(ids)) == 2


def _asked() -> tuple[Message, ...]:
    return (
        Message(speaker=Speaker.SYSTEM, text="s"),
        Message(speaker=Speaker.USER, text="u"),
    )


async def test_a_conversation_of_fifty_turns_is_encoded_as_it_was_said() -> None:
    messages = list(_asked())
    for number in range(50):
        call = RequestedCall(id=f"c{number}", name="read_file", arguments='{"path": "a"}')
        messages.append(Message(speaker=Speaker.ASSISTANT, calls=(call,)))
        messages.append(Message(speaker=Speaker.TOOL, text="x" * 100, answers=call.id))
    server = ChatServer(answering=lambda turn: ScriptedReply(text=f"turn {turn}"))
    async with server.running() as url:
        provider = Provider(name="house", base_url=url, model="tiny", key=Key(variable=""))
        model = ChatCompletionsModel(provider, HttpClient(url, waits=WAITS))
        for count in (len(messages) - 2, len(messages)):
            reply = await model.complete(ModelRequest(messages=tuple(messages[:count])))
        await model.close()
    assert reply.message.text == "turn 50"
    assert len(server.requests[1]["messages"]) == 102
    assert server.requests[1]["messages"][:100] == server.requests[0]["messages"]


class _Hearing:
    """Passes everything on and listens to the text."""

    def __init__(self, model: Model, heard: list[str]) -> None:
        self._model = model
        self._heard = heard
        self.facts = model.facts

    async def prepare(self) -> Any:
        return await self._model.prepare()

    async def complete(self, request: ModelRequest, **_: Any) -> ModelReply:
        return await self._model.complete(request, on_text=self._heard.append)

    async def close(self) -> None:
        return None
