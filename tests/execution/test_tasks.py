"""A whole task and the models there are, for programs that embed us."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, call, done
from models.loopback import Json, Peer
from models.servers import ChatServer
from patchyard.domain.errors import ModelUnavailable, UnknownName
from patchyard.execution import ProviderFactory, TaskExecutionRequest, execute_task
from patchyard.models.choosing import QUICK

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
def site(tmp_path: Path) -> Worksite:
    return Worksite.make(tmp_path, {"a.py": "a = 1\n"})


def asked(site: Worksite, *replies: Mapping[str, object], **options: Any) -> TaskExecutionRequest:
    made = TaskExecutionRequest(
        task="do it",
        environment="process",
        model=site.script(replies),
        repository=str(site.repository),
    )
    return replace(made, **options)


async def test_a_task_is_carried_out_and_told_in_its_result(site: Worksite) -> None:
    request = asked(site, ADD, done("made it"), validate=("test -e new.txt",), apply_to="worktree")
    result = await execute_task(request, environ=site.environ)
    await site.clear()
    assert (result.success, result.changed, result.summary) == (True, True, "made it")
    assert result.data["validation"][0]["passed"]
    assert (site.repository / "new.txt").read_text() == "new\n"


async def test_a_failure_is_a_result_with_its_cure(site: Worksite) -> None:
    failed = await execute_task(
        asked(site, call("finish", summary="too hard", failed=True)), environ=site.environ
    )
    await site.clear()
    assert (failed.success, failed.error, failed.message) == (False, "failed", "too hard")
    assert failed.data["state"] == "errored"
    wrong = await execute_task(asked(site, role="develper"), environ=site.environ)
    assert (wrong.error, wrong.plan_id, wrong.data) == ("unknown_name", "", {})
    assert "Did you mean 'developer'?" in wrong.message


async def test_what_was_used_is_in_the_result(site: Worksite) -> None:
    result = await execute_task(asked(site, ADD, done("made it")), environ=site.environ)
    failed = await execute_task(
        asked(site, call("finish", summary="too hard", failed=True)), environ=site.environ
    )
    await site.clear()
    for each in (result, failed):
        cost = each.data["cost"]
        told = (each.tokens, each.input_tokens, each.output_tokens, each.usd, each.steps)
        names = ("tokens", "input_tokens", "output_tokens", "usd", "steps")
        assert told == tuple(cost[name] for name in names)
        assert each.tokens == each.input_tokens + each.output_tokens > 0
        assert each.steps > 0
        assert each.seconds == cost["seconds"] > 0
        assert each.limit == ""
    wrong = await execute_task(asked(site, role="develper"), environ=site.environ)
    assert (wrong.tokens, wrong.usd, wrong.steps, wrong.seconds, wrong.limit) == (0, 0.0, 0, 0, "")


@pytest.mark.parametrize(
    ("options", "variables", "name"),
    [
        ({"steps": 1}, {}, "steps"),
        ({"tokens": 1}, {}, "tokens"),
        ({"seconds": 0.001}, {}, "seconds"),
        ({}, {"PATCHYARD_BUDGET": "{day_tokens: 1}"}, "budget.day_tokens"),
    ],
    ids=["steps", "tokens", "seconds", "day"],
)
async def test_the_limit_that_stopped_a_task_is_named(
    site: Worksite, options: Mapping[str, Any], variables: Mapping[str, str], name: str
) -> None:
    request = asked(site, ADD, done("made it"), **options)
    result = await execute_task(request, environ={**site.environ, **variables})
    await site.clear()
    assert (result.success, result.error, result.limit) == (False, "limit", name)
    assert result.data["state"] == "constrained"
    assert result.data["error_details"]["limit_name"] == name


async def test_a_proof_that_fails_in_each_round_names_the_rounds(site: Worksite) -> None:
    request = asked(site, *[ADD, done("made it")] * 4, validate=("test -e other.txt",))
    variables = {**site.environ, "PATCHYARD_ROUNDS": "1"}
    result = await execute_task(request, environ=variables)
    await site.clear()
    assert (result.error, result.limit) == ("validation_failed", "rounds")
    assert result.data["state"] == "constrained"


@pytest.mark.parametrize("place", ["a\0b", "~nobody-of-that-name/x", "x" * 5000])
async def test_a_repository_that_can_be_none_is_a_wrong_use(place: str, site: Worksite) -> None:
    wrong = await execute_task(asked(site, repository=place), environ=site.environ)
    assert (wrong.error, wrong.plan_id) == ("usage", "")
    assert "there is no folder" in wrong.message


class Together(ChatServer):
    """Says which models it has once two have asked for them."""

    def __init__(self) -> None:
        super().__init__()
        self.both = asyncio.Barrier(2)

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        await self.both.wait()
        return await super().handle(method, path, data, peer)


async def test_providers_are_asked_for_their_health_together(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = site.folder / "config" / "patchyard"
    folder.mkdir(parents=True)
    own = {"XDG_CONFIG_HOME": str(folder.parent), "OLLAMA_HOST": "127.0.0.1:9"}

    async def health(longest_s: float, **rows: str) -> Mapping[str, str]:
        said = {name: {"base_url": place, "first_byte_s": 60} for name, place in rows.items()}
        (folder / "models.yaml").write_text(json.dumps({"providers": said}))
        monkeypatch.setattr("patchyard.execution.providers.LONGEST_LOOK_S", longest_s)
        patient = replace(QUICK, connect_s=60.0)  # a busy machine connects late
        monkeypatch.setattr("patchyard.execution.providers.QUICK", patient)
        return await ProviderFactory({**site.environ, **own}).health()

    async with Together().running() as url, Together().running() as never:
        found = await health(60.0, a=url, b=url)
        assert (found["a"], found["b"]) == ("", "")
        found = await health(0.5, mute=never)
        assert found["mute"] == "mute does not answer within 0.5 s"


async def test_a_factory_finds_who_is_there(site: Worksite) -> None:
    async with ChatServer().running() as url:
        folder = site.folder / "config" / "patchyard"
        folder.mkdir(parents=True)
        (folder / "models.yaml").write_text(
            f'providers: {{house: {{base_url: "{url}", context_tokens: 9000}}}}\n'
            "roles: {tester: {default_model: gone, provider: house,"
            " fallbacks: [{model: tiny, provider: house}]}}\n"
        )
        own = {"XDG_CONFIG_HOME": str(folder.parent), "OLLAMA_HOST": "127.0.0.1:9"}
        factory_environ = {**site.environ, **own}
        factory = ProviderFactory(factory_environ)
        assert "house" in factory.providers()
        found = await factory.for_role("tester")
        assert found.name == "house:tiny"
        assert found.supports_tools()
        assert found.supports_mcp()
        assert {"native-tools", "context:9000"} <= set(found.get_capabilities())
        health = await factory.health()
        assert health["house"] == ""
        assert health["ollama"]
        with pytest.raises(UnknownName):
            await factory.for_role("nobody")
        with pytest.raises(ModelUnavailable):
            await factory.select()
        roles = folder / "roles"
        roles.mkdir()
        (roles / "translator.md").write_text("Translate.")
        (roles / "translator.yaml").write_text("purpose: translates\n")
        with pytest.raises(ModelUnavailable):  # the role is known, and has no models
            await factory.for_role("translator")
    result = await execute_task(asked(site, model="", provider=found), environ=factory_environ)
    await site.clear()
    assert (result.success, result.error) == (False, "model_unavailable")
