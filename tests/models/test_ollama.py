"""What only Ollama has: windows, loading, and models that are not pulled."""

from dataclasses import replace

import pytest

from models.loopback import Json, Peer, Refusal
from models.ollama_server import OllamaServer
from models.wordy import block
from patchyard.clients.http import HttpClient
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.messages import Message, ModelRequest, RequestedCall, Speaker
from patchyard.domain.tooling import Effect, ToolSpec
from patchyard.models.keys import Key
from patchyard.models.ollama import Loading, OllamaModel
from patchyard.models.scripted import ScriptedReply
from patchyard.models.texted import TextedModel
from patchyard.models.troubles import Provider

pytestmark = pytest.mark.anyio

ASKED = ModelRequest(messages=(Message(speaker=Speaker.USER, text="hi"),))


def model_of(
    url: str, *, name: str = "tiny", said: list[str] | None = None, loading: Loading | None = None
) -> OllamaModel:
    heard = said if said is not None else []
    return OllamaModel(
        Provider(name="ollama", base_url=url, model=name, key=Key(variable="")),
        HttpClient(url),
        loading=loading or Loading(poll_s=0.01),
        on_wait=heard.append,
    )


async def test_the_window_is_asked_for_and_the_same_in_every_request() -> None:
    server = OllamaServer(largest=20_000)
    async with server.running() as url:
        model = model_of(url)
        facts = await model.prepare()
        await model.complete(ASKED)
        await model.close()
    assert facts.context_tokens == 20_000
    assert server.loaded == 20_000
    assert server.requests[0]["options"]["num_ctx"] == 20_000
    assert server.requests[0]["truncate"] is False


async def test_a_model_that_is_loaded_wide_enough_is_not_loaded_again() -> None:
    said: list[str] = []
    server = OllamaServer(loaded=40_960)
    async with server.running() as url:
        model = model_of(url, said=said)
        await model.prepare()
        await model.close()
    assert said == []


async def test_loading_is_shown_and_waited_for() -> None:
    said: list[str] = []
    server = OllamaServer(still_loading=3)
    async with server.running() as url:
        model = model_of(url, said=said)
        await model.prepare()
        server.still_loading = 1
        reply = await model.complete(ASKED)
        await model.close()
    assert reply.message.text == "hello"
    assert said == ["tiny to be loaded with a window of 32,768 tokens"] * 5


async def test_loading_without_end_is_an_error_in_the_end() -> None:
    server = OllamaServer(still_loading=1000)
    async with server.running() as url:
        model = model_of(url, loading=Loading(poll_s=0.01, patience_s=0.05))
        with pytest.raises(ModelFailed, match="loading model"):
            await model.prepare()
        await model.close()


async def test_a_model_that_is_not_pulled_is_refused_with_the_command() -> None:
    async with OllamaServer().running() as url:
        model = model_of(url, name="qwen3-coder")
        with pytest.raises(ModelUnavailable) as caught:
            await model.prepare()
        await model.close()
    assert caught.value.hint == "`ollama pull qwen3-coder`"


async def test_a_model_with_a_small_window_is_refused_with_the_cure() -> None:
    async with OllamaServer(largest=4_096).running() as url:
        model = model_of(url)
        with pytest.raises(ModelUnavailable, match="4,096 tokens and at least 8,192") as caught:
            await model.prepare()
        await model.close()
    assert "ollama pull" in caught.value.hint


async def test_a_model_without_tools_says_so() -> None:
    async with OllamaServer(capabilities=("completion",)).running() as url:
        model = model_of(url)
        assert not (await model.prepare()).has_tools
        assert await model.capabilities("tiny") == {"completion"}
        await model.close()


class Older(OllamaServer):
    """A server of the time when models did not say what they can do."""

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        if path == "/api/show":
            await peer.whole({"model_info": {"tiny.context_length": 40_960}})
            return True
        if data.get("tools"):
            raise Refusal(400, {"error": "registry.ollama.ai/library/tiny does not support tools"})
        return await super().handle(method, path, data, peer)


async def test_a_model_that_only_says_so_when_it_is_asked_writes_its_calls() -> None:
    server = Older(answering=lambda _: ScriptedReply(text=block("read_file", path="a")))
    tool = ToolSpec(name="read_file", description="R.", parameters={}, effect=Effect.READ)
    async with server.running() as url:
        model = TextedModel(model_of(url))
        assert (await model.prepare()).has_tools
        reply = await model.complete(replace(ASKED, tools=(tool,)))
        await model.close()
    assert [call.name for call in reply.message.calls] == ["read_file"]
    assert not model.facts.has_tools


async def test_a_server_that_grants_less_is_believed_and_too_little_is_refused() -> None:
    async with OllamaServer(most_memory=10_000).running() as url:
        model = model_of(url)
        assert (await model.prepare()).context_tokens == 10_000
        await model.close()
    async with OllamaServer(most_memory=4_096).running() as url:
        model = model_of(url)
        with pytest.raises(ModelUnavailable, match="4,096 tokens only") as caught:
            await model.prepare()
        await model.close()
    assert "OLLAMA_CONTEXT_LENGTH" in caught.value.hint


async def test_too_little_memory_is_said_with_the_cure() -> None:
    async with OllamaServer(faults=["memory"]).running() as url:
        model = model_of(url)
        with pytest.raises(ModelUnavailable, match="more system memory"):
            await model.complete(ASKED)
        await model.close()


async def test_a_request_that_cannot_fit_is_never_sent() -> None:
    server = OllamaServer(largest=9_000)
    async with server.running() as url:
        model = model_of(url)
        await model.prepare()
        long = ModelRequest(messages=(Message(speaker=Speaker.USER, text="x" * 200_000),))
        with pytest.raises(ModelFailed, match="too long"):
            await model.complete(long)
        await model.close()
    assert server.requests == []


async def test_results_name_the_tool_they_answer_and_arguments_are_objects() -> None:
    calls = (
        RequestedCall(id="c1", name="read_file", arguments='{"path": "a"}'),
        RequestedCall(id="c2", name="read_file", arguments="not json"),
    )
    talk = (
        Message(speaker=Speaker.USER, text="u"),
        Message(speaker=Speaker.ASSISTANT, calls=calls),
        Message(speaker=Speaker.TOOL, text="r", answers="c1"),
        Message(speaker=Speaker.TOOL, text="r", answers="c2"),
    )
    server = OllamaServer(answering=lambda turn: ScriptedReply(text=str(turn)))
    async with server.running() as url:
        model = model_of(url)
        reply = await model.complete(ModelRequest(messages=talk, temperature=0.5))
        await model.close()
    assert reply.message.text == "1"
    sent = server.requests[0]["messages"]
    assert [c["function"]["arguments"] for c in sent[1]["tool_calls"]] == [{"path": "a"}, {}]
    assert sent[2]["tool_name"] == "read_file"
    assert server.requests[0]["options"]["temperature"] == 0.5


async def test_pulled_models_are_listed_and_usage_is_counted_by_the_server() -> None:
    async with OllamaServer().running() as url:
        model = model_of(url)
        assert await model.offered() == ("tiny:latest",)
        usage = (await model.complete(ASKED)).usage
        await model.close()
    assert (usage.input_tokens, usage.output_tokens, usage.usd) == (11, 7, 0.0)
