"""The engine as a program holds it: `from patchyard import Engine`."""

import asyncio
import json
import operator
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import patchyard
from engine.worksite import ADD, Worksite, done
from patchyard import Engine
from patchyard.domain.errors import GuardRefused, ModelFailed, Unavailable, UnknownName, UsageError
from patchyard.execution import TaskAction, TaskExecutionRequest, TaskRequest, TaskResponse

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
def site(tmp_path: Path) -> Worksite:
    return Worksite.make(tmp_path, {"a.py": "a = 1\n"})


class Acme:
    """Writes one file; fails as long as it is told to."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.is_broken = is_broken

    async def execute_task(self, request: TaskRequest) -> TaskResponse:
        if self.is_broken and request.purpose == "execute":
            raise ModelFailed("out of order", hint="wait")
        if request.purpose == "execute" and request.turn == 0:
            said = {"path": "new.txt", "content": request.task}
            return TaskResponse(actions=(TaskAction(name="write_file", arguments=said),))
        return TaskResponse(actions=(TaskAction(name="finish", arguments={"summary": "made"}),))

    def supports_tools(self) -> bool:
        return True

    def supports_mcp(self) -> bool:
        return True

    def get_capabilities(self) -> list[str]:
        return []


def agents(site: Worksite, *words: str) -> tuple[int, Mapping[str, Any]]:
    """Run the command line in another process; its exit code and its object."""
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "patchyard", *words, "--format", "json"],
        cwd=site.repository,
        env=site.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    said: Mapping[str, Any] = json.loads(ran.stdout)
    return ran.returncode, said


async def test_an_engine_is_opened_with_settings_and_runs_a_task(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site.repository)
    settings = {
        "home": site.folder / "another",
        "model": site.script([ADD, done("made it")]),
        "execution_environment": "process",
        "validate": ["test -e new.txt"],
        "apply": "worktree",
        "max_steps": 7,
    }
    async with Engine.open(settings, environ=site.environ) as engine:
        result = await engine.run("do it")
    assert (result.success, result.summary) == (True, "made it"), result.message
    assert result.data["validation"][0]["command"] == "test -e new.txt"
    assert result.data["environment"] == "process"
    assert result.data["cost"]["limits"]["steps"] == 7
    assert (site.repository / "new.txt").read_text() == "new\n"
    assert (site.folder / "another" / "patchyard.db").exists()


async def test_tasks_at_once_ask_a_provider_that_the_engine_was_given(site: Worksite) -> None:
    settings = {"execution_environment": "process", "WORKSPACE_DIR": site.folder / "trees"}
    async with Engine.open(settings, environ=site.environ) as engine:
        engine.register("acme", Acme())
        with pytest.raises(UsageError, match="there is a provider acme already"):
            engine.register("acme", Acme())
        tasks = [
            TaskExecutionRequest(task=task, repository=str(site.repository), model="acme:large")
            for task in ("one", "two")
        ]
        results = await asyncio.gather(*map(engine.run, tasks))
    assert [each.summary for each in results] == ["made", "made"], results[0].message
    assert len({each.plan_id for each in results}) == 2
    assert (site.folder / "trees" / "tasks").is_dir()
    await site.clear()


async def test_a_plan_of_a_programs_provider_goes_on_in_that_program_alone(
    site: Worksite,
) -> None:
    settings = {"execution_environment": "process"}
    acme = Acme(is_broken=True)
    async with Engine.open(settings, environ=site.environ) as engine:
        engine.register("acme", acme)
        asked = TaskExecutionRequest(
            task="do it", repository=str(site.repository), model="acme:large"
        )
        broken = await engine.run(asked)
        assert (broken.error, broken.message) == ("model_failed", "out of order")

        for command in ("resume", "fork"):
            code, told = await asyncio.to_thread(agents, site, "plan", command, broken.plan_id)
            assert (code, told["error"]["code"]) == (4, "model_unavailable")
            assert "the plan's model is acme:large" in told["error"]["message"]
            assert "engine.resume" in told["error"]["hint"]
            assert "plan fork ID --model" in told["error"]["hint"]

        acme.is_broken = False
        mended = await engine.resume(broken.plan_id)
        assert (mended.success, mended.summary) == (True, "made"), mended.message
        assert mended.plan_id == broken.plan_id
        wrong = await engine.resume("01ZZZZZZZZZZZZZZZZZZZZZZZZ")
        assert (wrong.error, wrong.plan_id) == ("unknown_name", "")
    await site.clear()


def worked_on(site: Worksite, until: str) -> None:
    """Run a worker of another process until it has said a text."""
    words = [sys.executable, "-P", "-m", "patchyard", "worker", "--drain", "1s"]
    with subprocess.Popen(
        words, cwd=site.repository, env=site.environ, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stderr is not None
        assert any(until in line for line in worker.stderr)
        worker.terminate()
        worker.stderr.read()


async def test_a_worker_loses_nothing_of_it_and_a_replay_needs_no_provider(site: Worksite) -> None:
    acme = Acme(is_broken=True)
    async with Engine.open({"execution_environment": "process"}, environ=site.environ) as engine:
        engine.register("acme", acme)
        asked = TaskExecutionRequest(
            task="do it", repository=str(site.repository), model="acme:large"
        )
        plan_id = (await engine.run(asked)).plan_id
        queued = await asyncio.to_thread(agents, site, "plan", "resume", plan_id, "--detach")
        assert queued[0] == 0
        await asyncio.to_thread(worked_on, site, f"{plan_id}: the plan's model is acme:large")
        _, told = await asyncio.to_thread(agents, site, "plan", "status", plan_id)
        assert (told["data"]["phase"], told["data"]["state"]) == ("execute", "errored")
        assert "this process has no such provider" in told["data"]["error_message"]

        acme.is_broken = False
        assert (await engine.resume(plan_id)).summary == "made"
        code, told = await asyncio.to_thread(agents, site, "plan", "replay", plan_id)
        assert (code, told["error"]) == (0, None)
    await site.clear()


async def test_an_engine_that_is_closed_takes_no_task(site: Worksite) -> None:
    async with Engine.open(environ=site.environ) as engine:
        pass
    with pytest.raises(GuardRefused, match="the engine is closed"):
        await engine.run("do it")
    with pytest.raises(GuardRefused, match="the engine is closed"):
        await engine.resume("x")


@pytest.mark.parametrize(
    ("settings", "kind", "said"),
    [
        ({"modle": "a:b"}, UnknownName, "unknown setting 'modle'. Did you mean 'model'?"),
        ({"max_steps": "many"}, UsageError, "PATCHYARD_MAX_STEPS"),
        ({"home": "/proc/none"}, Unavailable, "the state folder /proc/none"),
    ],
    ids=["unknown", "wrong", "home"],
)
async def test_settings_that_can_be_none_are_refused_as_it_is_opened(
    site: Worksite, settings: Mapping[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said.replace("?", r"\?").replace(".", r"\.")):
        async with Engine.open(settings, environ=site.environ):
            pytest.fail("it was opened")


def test_another_name_of_the_package_is_not_there() -> None:
    assert "Engine" in dir(patchyard)
    with pytest.raises(AttributeError, match="Engin"):
        operator.attrgetter("Engin")(patchyard)
