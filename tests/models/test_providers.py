"""Names of models, providers and their settings, and which model is taken when none is named."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.ollama_server import OllamaServer
from models.servers import ChatServer
from patchyard.domain.budget import PlanLimits
from patchyard.domain.errors import ModelUnavailable, UnknownName, UsageError
from patchyard.domain.messages import Message, ModelFacts, ModelRequest, Speaker
from patchyard.domain.model_names import split_name
from patchyard.models.choosing import Choice, choose, terms
from patchyard.models.prices import shipped_prices
from patchyard.models.providers import (
    Catalogue,
    ModelSettings,
    ProviderSettings,
    built_in,
    is_loopback,
    ollama_url,
)
from patchyard.models.recorded import RecordedModel

pytestmark = pytest.mark.anyio

NOBODY = "http://127.0.0.1:9"  # the discard port: nobody listens
ASKED = ModelRequest(messages=(Message(speaker=Speaker.USER, text="hi"),))


def catalogue(environ: Mapping[str, str] | None = None, **more: Any) -> Catalogue:
    return Catalogue(
        environ={"OLLAMA_HOST": NOBODY, **(environ or {})}, prices=shipped_prices(), **more
    )


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("ollama:qwen3-coder", ("ollama", "qwen3-coder")),
        ("resetdata:llama3.1:8b", ("resetdata", "llama3.1:8b")),
        ("recorded:/a:b/c", ("recorded", "/a:b/c")),
    ],
)
def test_a_name_is_split_at_the_first_colon(name: str, parts: tuple[str, str]) -> None:
    assert split_name(name) == parts


@pytest.mark.parametrize("name", ["", "gpt-4o", ":x", "openai:"])
def test_half_a_name_is_refused_with_the_form(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        split_name(name)
    assert "PROVIDER:MODEL" in caught.value.hint


def test_an_unknown_provider_lists_the_right_ones() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'openai'"):
        catalogue().open("opnai:gpt-4o")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("box", "http://box:11434"),
        ("box:99", "http://box:99"),
        (":99", "http://127.0.0.1:99"),
        ("http://box", "http://box:80"),
        ("https://box/ollama/", "https://box:443/ollama"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:5", "http://[::1]:5"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str) -> None:
    assert ollama_url(host) == url


def test_vendors_own_variables_are_honoured() -> None:
    found = built_in({"OPENAI_BASE_URL": "http://localhost:1/v1", "OLLAMA_HOST": "h:2"})
    assert found["openai"].base_url == "http://localhost:1/v1"
    assert found["ollama"].base_url == "http://h:2"
    assert built_in({})["openai"].base_url == "https://api.openai.com/v1"


def test_loopback_is_told_from_names_that_look_like_it() -> None:
    assert is_loopback("http://127.0.0.1:1")
    assert is_loopback("http://localhost/v1")
    assert not is_loopback("http://localhost.example.invalid")
    assert not is_loopback("https://api.example.invalid")


async def test_opening_a_model_asks_it_with_the_key_of_its_variable() -> None:
    server = ChatServer(key="k-123456")
    async with server.running() as url:
        house = ProviderSettings(
            kind="openai-compatible", base_url=url, api_key_env="HOUSE_KEY", context_tokens=8192
        )
        made = catalogue({"HOUSE_KEY": "k-123456"}, configured={"house": house})
        model = made.open("house:tiny")
        assert (await model.prepare()).context_tokens == 8192
        reply = await model.complete(ASKED)
        await model.close()
    assert reply.message.text == "hello"
    assert reply.usage.usd is None
    assert "k-123456" not in repr(made)
    assert made.secrets == ("k-123456",)


async def test_scripts_and_recordings_are_opened_from_files(tmp_path: Path) -> None:
    script = tmp_path / "s.yaml"
    script.write_text("execute:\n- finish: done\n")
    model = catalogue().open(f"scripted:{script}")
    assert model.facts.name == "scripted:s.yaml"
    recording = tmp_path / "r"
    recording.write_text('{"patchyard_recording": 1, "model": "m", "environment": "process"}')
    assert isinstance(catalogue().open(f"recorded:{recording}"), RecordedModel)


async def test_what_is_named_comes_first_then_the_role_then_the_configuration() -> None:
    house = ProviderSettings(kind="openai-compatible", base_url="http://h/v1", default_model="tiny")
    made = catalogue({"OPENAI_API_KEY": "k"}, configured={"house": house})
    made = replace(made, roles={"tester": ("c:d", "e:f")})
    assert (await choose(made, named="a:b", role="tester")).names == ("a:b",)
    assert (await choose(made, role="tester")).names == ("c:d", "e:f")
    assert (await choose(made, role="architect")).names == ("house:tiny",)


async def test_a_chain_that_is_shipped_for_a_role_counts_as_far_as_it_is_there() -> None:
    async with OllamaServer().running() as url:
        made = catalogue({"OLLAMA_HOST": url, "OPENAI_API_KEY": "k"})
        shipped = ("resetdata:a", "ollama:big", "ollama:tiny:latest", "openai:gpt-4o")
        made = replace(made, shipped_roles={"architect": shipped})
        choice = await choose(made, role="architect")
        assert choice.names == ("ollama:tiny:latest", "openai:gpt-4o")
        assert (await choose(made, role="tester")).names == ("ollama:tiny:latest",)


async def test_a_reachable_ollama_comes_before_a_vendor_key() -> None:
    async with OllamaServer().running() as url:
        made = catalogue({"OLLAMA_HOST": url, "OPENAI_API_KEY": "k"})
        assert (await choose(made)).name == "ollama:tiny:latest"
    choice = await choose(catalogue({"OPENAI_API_KEY": "k"}))
    assert choice.name == "openai:gpt-4o"
    assert "OPENAI_API_KEY" in choice.reason


async def test_an_ollama_whose_model_can_only_write_comes_after_a_vendor_key() -> None:
    async with OllamaServer(capabilities=("completion",)).running() as url:
        made = catalogue({"OLLAMA_HOST": url, "OPENAI_API_KEY": "k"})
        assert (await choose(made)).name == "openai:gpt-4o"
        assert (await choose(catalogue({"OLLAMA_HOST": url}))).name == "ollama:tiny:latest"


async def test_a_shipped_model_that_can_only_write_is_there() -> None:
    async with OllamaServer(capabilities=("completion",)).running() as url:
        made = replace(
            catalogue({"OLLAMA_HOST": url}), shipped_roles={"tester": ("ollama:tiny:latest",)}
        )
        assert (await choose(made, role="tester")).reason == "shipped for role tester"


async def test_an_ollama_whose_model_cannot_write_is_passed_over() -> None:
    async with OllamaServer(capabilities=("embedding",)).running() as url:
        with pytest.raises(ModelUnavailable):
            await choose(catalogue({"OLLAMA_HOST": url}))


@pytest.mark.parametrize(("name", "has_tools"), [("a", False), ("b", True)])
def test_a_configured_model_may_differ_from_its_provider(name: str, *, has_tools: bool) -> None:
    house = ProviderSettings(
        kind="openai-compatible",
        base_url="http://h/v1",
        tools=False,
        models={"b": ModelSettings(tools=True), "c": ModelSettings()},
    )
    made = catalogue(configured={"house": house})
    assert made.open(f"house:{name}").facts.has_tools is has_tools
    assert not made.open("house:c").facts.has_tools


async def test_looking_a_model_up_asks_the_providers_list_and_nothing_that_costs() -> None:
    server = ChatServer(key="k-123456")
    async with server.running() as url:
        house = ProviderSettings(kind="openai-compatible", base_url=url, api_key_env="HOUSE_KEY")
        configured = {"house": house, "openai": house}
        made = catalogue({"HOUSE_KEY": "k-123456"}, configured=configured)
        assert (await made.look_up("house:tiny")).name == "house:tiny"
        with pytest.raises(ModelUnavailable, match="no model 'tinny'") as caught:
            await made.look_up("house:tinny")
        assert caught.value.hint == "it has `tiny`"
        wrong = catalogue({"HOUSE_KEY": "another"}, configured=configured)
        with pytest.raises(ModelUnavailable, match="refused the key"):
            await wrong.look_up("house:tiny")
        nowhere = replace(house, base_url=f"{url}/deeper")
        silent = catalogue({"HOUSE_KEY": "k-123456"}, configured={"house": nowhere})
        assert (await silent.look_up("house:tiny")).name == "house:tiny"  # it lists none
    assert server.requests == []
    async with OllamaServer().running() as url:
        facts = await catalogue({"OLLAMA_HOST": url}).look_up("ollama:tiny")
    assert (facts.context_tokens, facts.usd_per_million_output) == (32_768, 0.0)


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("openai:gpt-4o", "K is set", "openai:gpt-4o (K is set); at most 5 USD"),
        ("openai:gpt-4o", "named", ""),
        ("ollama:tiny", "Ollama runs here", "ollama:tiny (Ollama runs here)"),
        ("openai:new", "named", "(named); its price is not known: at most 2,000,000 tokens"),
    ],
)
async def test_a_model_and_what_bounds_it_are_said_before_it_is_asked(
    name: str, reason: str, words: str
) -> None:
    model = catalogue().open(name)
    said = terms(Choice(name=name, reason=reason), model.facts, PlanLimits())
    await model.close()
    assert said.endswith(words)
    assert bool(said) is bool(words)
    few = terms(Choice(name="a:b", reason="named"), ModelFacts(name="a:b"), PlanLimits(tokens=9))
    assert few.endswith("at most 9 tokens")


async def test_without_any_model_three_cures_are_named() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        await choose(catalogue())
    assert caught.value.exit_code == 4
    for cure in ("ollama pull", "OPENAI_API_KEY", "--model"):
        assert cure in caught.value.hint
