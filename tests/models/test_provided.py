"""Providers of others, whatever they do: each way of being wrong is an error by name, in time."""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from patchyard.contracts.provider import ModelProvider, TaskAction, TaskRequest, TaskResponse
from patchyard.domain.errors import ModelFailed, ModelUnavailable, UsageError
from patchyard.domain.messages import (
    Image,
    Message,
    ModelReply,
    ModelRequest,
    Speaker,
    StopReason,
)
from patchyard.domain.tooling import Effect, ToolSpec
from patchyard.models import provided as module
from patchyard.models.answer_shapes import require_provider
from patchyard.models.prices import shipped_prices
from patchyard.models.provided import ProvidedModel, Work
from patchyard.models.providers import Catalogue
from patchyard.models.texted import TextedModel

pytestmark = pytest.mark.anyio

ASKED = ModelRequest(messages=(Message(speaker=Speaker.USER, text="do it"),), turn=3)
MCP = ToolSpec(name="mcp__files__read", description="Read.", parameters={}, effect=Effect.READ)


class Provider:
    """Answers what a test says."""

    def __init__(self, answer: Any = None, **said: Any) -> None:
        self.answer = answer
        self.said = {"tools": True, "mcp": True, "capabilities": [], **said}
        self.asked: list[TaskRequest] = []
        self.closed = 0

    async def execute_task(self, request: TaskRequest) -> TaskResponse:
        self.asked.append(request)
        made = self.answer(request) if callable(self.answer) else self.answer
        if asyncio.iscoroutine(made):
            made = await made
        answer: TaskResponse = made
        return answer

    def supports_tools(self) -> bool:
        answer: bool = self.said["tools"]
        return answer

    def supports_mcp(self) -> bool:
        answer: bool = self.said["mcp"]
        return answer

    def get_capabilities(self) -> Sequence[str]:
        words: Sequence[str] = self.said["capabilities"]
        return words

    async def close(self) -> None:
        self.closed += 1


def model(provider: Any, *, answer_s: float = 60, is_owned: bool = False) -> ProvidedModel:
    async def bring() -> ModelProvider:
        made: ModelProvider = provider
        return made

    work = Work(task="mend it", role="tester")
    return ProvidedModel("acme:large", bring, is_owned=is_owned, answer_s=answer_s, work=work)


async def asked(provider: Any, request: ModelRequest = ASKED, **options: Any) -> ModelReply:
    made = model(provider, **options)
    await made.prepare()
    return await made.complete(request)


async def test_what_it_says_of_itself_is_what_is_known_of_the_model() -> None:
    facts = await model(Provider(tools=False, capabilities=("images", "context:9000"))).prepare()
    assert (facts.has_tools, facts.has_images, facts.context_tokens) == (False, True, 9000)
    facts = await model(Provider(capabilities=["fast"])).prepare()
    assert (facts.has_tools, facts.has_images, facts.context_tokens) == (True, False, None)


async def test_it_is_told_all_of_the_turn_and_of_the_work() -> None:
    provider = Provider(TaskResponse(text="yes"))
    image = Image(media_type="image/png", data="AA==")
    shown = Message(speaker=Speaker.USER, text="look", images=(image,))
    request = replace(
        ASKED, messages=(shown,), tools=(MCP,), purpose="execute", max_output_tokens=7,
        temperature=0.5,
    )  # fmt: skip
    await asked(provider, request)
    told = provider.asked[0]
    assert (told.model, told.task, told.role) == ("large", "mend it", "tester")
    assert (told.purpose, told.turn, told.max_output_tokens) == ("execute", 3, 7)
    assert (told.temperature, told.tools) == (0.5, (MCP,))
    assert not told.messages[0].images  # it cannot see
    seeing = Provider(TaskResponse(text="yes"), capabilities=["images"])
    await asked(seeing, request)
    assert seeing.asked[0].messages[0].images == (image,)


async def test_an_answer_arrives_as_it_was_given() -> None:
    answer = TaskResponse(
        text="so",
        actions=(
            TaskAction(name="read_file", arguments={"path": "ü"}),
            TaskAction(name="read_file", arguments='{"path"', id="own"),
        ),
        input_tokens=11,
        output_tokens=5,
        usd=0.25,
        model="large-2",
    )
    reply = await asked(Provider(answer))
    assert [(call.id, call.arguments) for call in reply.message.calls] == [
        ("call-3-0", '{"path": "ü"}'),
        ("own", '{"path"'),
    ]
    assert (reply.message.text, reply.stop, reply.model) == ("so", StopReason.CALLS, "large-2")
    usage = reply.usage
    assert (usage.input_tokens, usage.output_tokens, usage.usd) == (11, 5, 0.25)
    assert not usage.is_estimated
    silent = await asked(Provider(TaskResponse(text="so", stop=StopReason.LENGTH)))
    assert (silent.stop, silent.model, silent.usage.usd) == (StopReason.LENGTH, "large", None)
    assert silent.usage.is_estimated
    assert silent.usage.output_tokens > 0


def nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = {"a": found}
    return found


def odd(**fields: Any) -> TaskResponse:
    return TaskResponse(**fields)


def act(**fields: Any) -> TaskResponse:
    return TaskResponse(actions=(TaskAction(**{"name": "read_file", **fields}),))


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": (None, "answered nothing"),
    "another type": ({"text": "yes"}, "answered a dict"),
    "a class": (TaskResponse, "TypeError"),
    "text": (odd(text=b"yes"), "answered a bytes as `text`"),
    "model": (odd(model=None), "answered None as `model`"),
    "half a character": (TaskResponse(text="\ud800"), "UTF-8 cannot hold"),
    "half a character in a call": (act(arguments={"a": "\ud800"}), "UTF-8 cannot hold"),
    "actions": (odd(actions=5), "answered 5 as `actions`"),
    "endless actions": (
        odd(actions=iter(int, 1)),
        "answered a callable_iterator as `actions`",
    ),
    "an action": (odd(actions=("x",)), "'x' as action 1"),
    "a name": (act(name=""), "the name the text ''"),
    "an id": (act(id=5), "the id 5"),
    "arguments": (act(arguments=[1]), "the arguments a list"),
    "no JSON": (act(arguments={"a": object()}), "no JSON (TypeError)"),
    "too deep": (act(arguments=nested(100_000)), "no JSON (RecursionError)"),
    "stop": (odd(stop="tired"), "'tired' as `stop`"),
    "tokens": (TaskResponse(input_tokens=-1), "answered -1 as `input_tokens`"),
    "no tokens": (TaskResponse(output_tokens=True), "answered True as `output_tokens`"),
    "price": (TaskResponse(usd=float("nan")), "answered nan as `usd`"),
    "large price": (TaskResponse(usd=10**400), "more than 20 digits as `usd`"),
    "too long": (TaskResponse(text="a" * 9000), "9,000 characters, and 8,000 is the most"),
    "an exception": (lambda _: 1 / 0, "raised ZeroDivisionError: division by zero at "),
    "an exit": (lambda _: sys.exit(3), "raised SystemExit: 3"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_each_wrong_answer_is_an_error_with_its_cure(name: str) -> None:
    answer, said = WRONG[name]
    provider = Provider(answer)
    with pytest.raises(ModelFailed) as caught:
        await asked(provider, replace(ASKED, max_output_tokens=1000))
    assert said in caught.value.message
    assert caught.value.message.startswith("the provider acme:large (test_provided.")
    assert caught.value.hint
    assert not caught.value.retryable
    assert caught.value.details["provider"] == "acme"


SAID: dict[str, tuple[dict[str, Any], str]] = {
    "tools": ({"tools": "yes"}, "answered the text 'yes' to supports_tools()"),
    "mcp": ({"mcp": None}, "answered None to supports_mcp()"),
    "one text": ({"capabilities": "images"}, "answered the text 'images' to get_capabilities()"),
    "no list": ({"capabilities": None}, "answered None to get_capabilities()"),
    "no texts": ({"capabilities": [1]}, "answered a list to get_capabilities()"),
    "no window": ({"capabilities": ["context:much"]}, "has the capability 'context:much'"),
    "no window at all": ({"capabilities": ["context:0"]}, "has the capability 'context:0'"),
}


@pytest.mark.parametrize("name", SAID)
async def test_what_it_says_wrongly_of_itself_is_an_error_with_its_cure(name: str) -> None:
    said, message = SAID[name]
    with pytest.raises(ModelFailed) as caught:
        await model(Provider(**said)).prepare()
    assert message in caught.value.message
    assert caught.value.hint


async def test_what_it_raises_of_itself_is_named_with_the_line() -> None:
    class Odd(Provider):
        def supports_tools(self) -> bool:
            raise KeyError("what")

    with pytest.raises(ModelFailed, match=r"raised KeyError: 'what' at .*test_provided\.py:\d+"):
        await model(Odd()).prepare()


async def test_a_key_in_the_words_of_an_exception_is_hidden() -> None:
    def leaking(_: TaskRequest) -> None:
        raise ValueError("no access with sk-abcdefghijklmnopqrstuvwxyz")

    with pytest.raises(ModelFailed) as caught:
        await asked(Provider(leaking))
    assert "[hidden]" in caught.value.message
    assert "abcdefghij" not in caught.value.message


@pytest.mark.parametrize("kind", [ConnectionResetError, TimeoutError, OSError])
async def test_trouble_of_the_system_may_pass(kind: type[OSError]) -> None:
    def broken(_: TaskRequest) -> None:
        raise kind("gone")

    with pytest.raises(ModelFailed) as caught:
        await asked(Provider(broken))
    assert caught.value.retryable


@pytest.mark.parametrize(
    "error", [ModelFailed("busy", retryable=True), ModelUnavailable("no key", hint="get one")]
)
async def test_what_it_raises_by_purpose_arrives_as_it_is(error: Exception) -> None:
    def refusing(_: TaskRequest) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await asked(Provider(refusing))
    assert caught.value is error


async def endless(_: TaskRequest) -> None:
    await asyncio.Event().wait()


async def deaf(_: TaskRequest) -> None:
    """Hear no cancellation, for a while."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            await asyncio.sleep(until - time.monotonic())
        except asyncio.CancelledError:
            continue


@pytest.mark.parametrize("answer", [endless, deaf])
async def test_an_endless_answer_ends_in_its_time(
    answer: Callable[[TaskRequest], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.05)
    with pytest.raises(ModelFailed, match=r"did not answer within 0\.05 s") as caught:
        await asyncio.wait_for(asked(Provider(answer), answer_s=0.05), timeout=20)
    assert caught.value.retryable
    assert caught.value.details["kind"] == "timeout"


async def test_one_that_cancels_itself_fails_and_cancels_nobody_else() -> None:
    async def cancelling(_: TaskRequest) -> None:
        raise asyncio.CancelledError

    with pytest.raises(ModelFailed, match="cancelled its own request"):
        await asked(Provider(cancelling))


async def test_a_cancellation_reaches_the_provider() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def waiting(_: TaskRequest) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(asked(Provider(waiting)))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_one_that_was_registered_is_not_closed_and_one_that_was_made_is() -> None:
    registered, made = Provider(TaskResponse()), Provider(TaskResponse())
    for provider, is_owned in ((registered, False), (made, True)):
        one = model(provider, is_owned=is_owned)
        await one.prepare()
        await one.close()
        await one.close()
    assert (registered.closed, made.closed) == (0, 1)


async def test_tools_of_mcp_servers_are_put_into_words_where_it_takes_none() -> None:
    provider = Provider(TaskResponse(text="fine"), mcp=False)
    texted = TextedModel(model(provider))
    await texted.prepare()
    assert texted.facts.has_tools
    await texted.complete(replace(ASKED, tools=(MCP,)))
    assert provider.asked[0].tools == ()
    assert any("mcp__files__read" in message.text for message in provider.asked[0].messages)


def test_what_is_no_provider_is_refused_by_what_it_lacks() -> None:
    class Half:
        def supports_tools(self) -> bool:
            return True

    with pytest.raises(UsageError, match="has no execute_task, supports_mcp, get_capabilities"):
        require_provider("acme", Half())
    with pytest.raises(UsageError, match="is the class Provider, not an object of it"):
        require_provider("acme", Provider)


async def test_one_without_a_list_of_models_is_there_all_the_same() -> None:
    catalogue = Catalogue(
        environ={}, prices=shipped_prices(), provided={"acme": Provider(TaskResponse())}
    )
    assert catalogue.providers["acme"].kind == "program"
    with pytest.raises(ModelFailed) as caught:
        await catalogue.offered("acme")
    assert caught.value.details["kind"] == "no_list"
    assert (await catalogue.look_up("acme:large")).name == "acme:large"
