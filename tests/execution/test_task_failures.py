"""Whatever goes wrong with a task arrives as its result; only a cancellation passes on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, done
from execution.test_tasks import asked
from patchyard.domain.errors import ModelFailed
from patchyard.engine.workflow import Workflow
from patchyard.execution import Task, TaskExecutionRequest, execute_task, tasks

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
def site(tmp_path: Path) -> Worksite:
    return Worksite.make(tmp_path, {"a.py": "a = 1\n"})


FAILURES = [
    (OSError(28, "No space left on device", "/srv/x"), "unavailable", "/srv/x: No space left"),
    (TimeoutError("too late"), "unavailable", "too late"),
    (KeyError("missing"), "internal", "KeyError: 'missing'"),
    (ExceptionGroup("two", [ModelFailed("busy"), ValueError()]), ModelFailed.code, "busy"),
]


@pytest.mark.parametrize(("failure", "code", "message"), FAILURES, ids=lambda each: str(each)[:20])
async def test_each_failure_of_the_work_is_a_result_with_its_plan(
    site: Worksite, monkeypatch: pytest.MonkeyPatch, failure: Exception, code: str, message: str
) -> None:
    async def broken(_self: Workflow, _plan_id: str) -> None:
        raise failure

    monkeypatch.setattr(Workflow, "run", broken)
    result = await execute_task(asked(site, ADD, done("x")), environ=site.environ)
    assert (result.success, result.error) == (False, code)
    assert message in result.message
    assert bool(result.hint) == (code != ModelFailed.code)
    assert result.data["plan_id"] == result.plan_id


@pytest.mark.parametrize("place", ["open_equipment", "considered", "plan_data"])
async def test_each_failure_around_the_work_is_a_result(
    site: Worksite, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    async def quick(_self: Workflow, _plan_id: str) -> None:
        await asyncio.sleep(0)

    def broken(*_given: Any, **_further: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/srv/home")

    monkeypatch.setattr(Workflow, "run", quick)
    monkeypatch.setattr(tasks, place, broken)
    result = await execute_task(asked(site, ADD, done("x")), environ=site.environ)
    assert (result.success, result.error) == (False, "unavailable")
    assert result.message.startswith("/srv/home: Permission denied")
    assert bool(result.plan_id) == (place == "plan_data")


async def test_a_request_that_is_none_is_a_result(site: Worksite) -> None:
    odd: Any = ["A=b"]  # instead of a mapping
    request = TaskExecutionRequest(task="x", repository=str(site.repository), variables=odd)
    result = await execute_task(request, environ=site.environ)
    assert (result.success, result.error, result.plan_id) == (False, "usage", "")
    assert result.message == "TaskExecutionRequest.variables is a list"


async def test_a_cancellation_passes_on(site: Worksite, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def waiting(_self: Workflow, _plan_id: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Workflow, "run", waiting)
    running = asyncio.create_task(execute_task(asked(site, ADD, done("x")), environ=site.environ))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


TEXT: Any = "pytest -q"  # of another type than the records say
NUMBER: Any = 5
ROW: Any = ["A=1"]
WRONG: dict[str, Any] = {
    "a task was given as a str": "mend it",
    "a task was given as a NoneType": None,
    "TaskExecutionRequest.validate is 'pytest -q', and takes several texts": TaskExecutionRequest(
        task="mend it",
        validate=TEXT,
    ),
    "TaskExecutionRequest.setup is (5,), and takes several texts": TaskExecutionRequest(
        task="mend it",
        setup=(NUMBER,),
    ),
    "TaskExecutionRequest.environment is a int, not a text": TaskExecutionRequest(
        task="mend it",
        environment=NUMBER,
    ),
    "Task.validate is 'pytest -q', and takes several texts": TaskExecutionRequest(
        task=Task(text="mend it", validate=TEXT),
    ),
    "TaskExecutionRequest.variables is a list": TaskExecutionRequest(
        task="mend it",
        variables=ROW,
    ),
}


@pytest.mark.parametrize("message", WRONG)
async def test_a_request_of_another_shape_is_refused_before_there_is_a_plan(
    site: Worksite, message: str
) -> None:
    result = await execute_task(WRONG[message], environ=site.environ)
    assert (result.error, result.message, result.plan_id) == ("usage", message, "")
    assert result.hint
