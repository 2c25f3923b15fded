"""A question that is open when something ends: one plan, one answer, and all of it is counted."""

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from asking.office import ASKS, Office, Struck, answers, struck, told
from engine.worksite import ADD, call, done
from patchyard.assembly import open_equipment
from patchyard.domain.errors import Conflict
from patchyard.domain.events import Event, PlanCreated, ToolCallRequested
from patchyard.domain.inquiries import RoleAnswered, RoleAsked
from patchyard.domain.plan import Phase, State
from patchyard.engine.directing import Directing
from patchyard.engine.ledger import Ledger, read_events
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.outlook import outlook
from patchyard.engine.owning import Cancelled
from patchyard.engine.rolling_back import roll_back
from patchyard.engine.waiting import waiting
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.mark.parametrize("when", ["asked", "made", "answering", "unsettled", "settled"])
async def test_killed_at_any_instant_there_is_one_plan_and_one_answer(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(answers("One."),))
    real = Ledger.record

    async def record(ledger: Ledger, *events: Event) -> None:
        first = events[0]
        is_colleagues = isinstance(first, PlanCreated) and first.spec.role == "architect"
        if when == "unsettled" and isinstance(first, RoleAnswered):
            raise Struck
        await real(ledger, *events)
        struck = {
            "asked": any(isinstance(each, RoleAsked) for each in events),
            "made": is_colleagues,
            "answering": ledger.state.known.role == "architect" and ledger.state.turn > 0,
            "settled": isinstance(first, RoleAnswered),
        }
        if struck.get(when):
            raise Struck

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record", record)
        with pytest.raises(Struck):
            await office.run()
    plan_id = (await office.plans())[-1]
    async with open_equipment(office.environ) as equipment:
        ledger = await office.site.ledger(equipment, plan_id)
        foreseen = await outlook(equipment, ledger)
        if when != "settled":
            (asked,) = ledger.state.inquiries.open.values()
            said = f"the architect goes on in plan {asked.colleague_id}"
            assert [each.would for each in foreseen.open_calls] == [said]
            waits = waiting(ledger.state)
            assert waits is not None
            assert waits["for"] == f"the answer of the architect, in plan {asked.colleague_id}"
    data, events, error = await office.run(plan_id)
    assert error is None
    assert len(await office.plans()) == 2
    assert [sum(isinstance(e, kind) for e in events) for kind in (RoleAsked, RoleAnswered)] == [
        1,
        1,
    ]
    (settled,) = told(events)
    assert settled.success
    assert data["cost"]["steps"] == 5


def started(office: Office) -> "subprocess.Popen[bytes]":
    """Return a command of its own that tells what happens, line by line."""
    words = ["run", "Do it", "--in", "process", "--validate", "", "--stream", "--format", "json"]
    return subprocess.Popen(
        [sys.executable, "-m", "patchyard", *words],
        cwd=office.site.repository,
        env=office.environ,
        stdout=subprocess.PIPE,
    )


async def test_an_engine_that_is_really_killed_goes_on_where_the_colleague_was(
    tmp_path: Path,
) -> None:
    looks = call("execute_command", command="sleep 1; echo looked")
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(looks, answers("One.")))
    command = started(office)
    assert command.stdout is not None
    for line in command.stdout:
        if b'"RoleAsked"' in line:
            break
    while not (await office.plans())[1:]:
        pass
    command.kill()
    command.communicate()
    data, events, error = await office.run((await office.plans())[-1])
    assert (error, len(await office.plans())) == (None, 2)
    assert [each.success for each in told(events)] == [True]
    assert data["questions"][0]["is_answered"]


@pytest.mark.parametrize(("kind", "steps"), [(RoleAsked, 0), (RoleAnswered, 1)])
async def test_a_cancelled_question_counts_and_its_plan_ends_too(
    kind: type[Event], steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(answers("One."),))
    with struck(monkeypatch, kind, is_written=kind is RoleAsked):
        await office.run()
    plan_id = (await office.plans())[-1]
    async with open_equipment(office.environ) as equipment:
        await Workflow(equipment).cancel(plan_id)
    async with office.ledger(plan_id) as ledger:
        (answered,) = ledger.state.inquiries.answered.values()
        assert ledger.state.state == State.CANCELLED
        assert (answered.error, answered.steps) == ("CANCELLED", steps)
    resumed, events, error = await office.run(plan_id)
    assert (error, resumed["questions"][0]["error"]) == (None, "CANCELLED")
    assert [each.error for each in told(events)] == ["CANCELLED"]


async def test_a_cancel_reaches_the_colleague_at_work(tmp_path: Path) -> None:
    looks = call("execute_command", command="sleep 60", timeout_s=90)
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(looks, answers("One.")))
    working = asyncio.create_task(office.run())
    async with open_equipment(office.environ) as equipment, asyncio.timeout(120):
        commands = 0
        while not commands:
            await asyncio.sleep(0.02)
            for stream, row in (await equipment.store.summaries.summaries())[:1]:
                events = await read_events(equipment.store.journal, stream)
                kinds = [type(event) for _, _, event in events]
                commands = row.get("kinship") == "colleague" and kinds.count(ToolCallRequested)
        plan_id = (await office.plans())[-1]
        await Workflow(equipment).cancel(plan_id)
    data, _, error = await working
    assert isinstance(error, Cancelled)
    async with office.ledger(data["questions"][0]["plan_id"]) as own:
        assert (own.state.state, dict(own.state.environments)) == (State.CANCELLED, {})
    assert (data["state"], data["questions"][0]["error"]) == ("cancelled", "CANCELLED")


async def test_a_rollback_ends_an_open_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(answers("One."),))
    with struck(monkeypatch, RoleAnswered, is_written=False):
        await office.run()
    plan_id = (await office.plans())[-1]
    async with (
        open_equipment(office.environ) as equipment,
        PlanLifecycleService(equipment).owned(plan_id) as ledger,
    ):
        await roll_back(equipment, ledger, ledger.state.checkpoints[0])
        assert not ledger.state.inquiries.open
        assert not ledger.state.open_calls
    data, _, error = await office.run(plan_id)
    assert error is None
    assert [each["error"] for each in data["questions"]][:1] == ["CANCELLED"]


async def test_a_plan_that_another_process_has_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(answers("One."),))
    with struck(monkeypatch, RoleAnswered, is_written=False):
        await office.run()
    own, plan_id = await office.plans()
    async with open_equipment(office.environ) as equipment:
        async with PlanLifecycleService(equipment).owned(own):
            with pytest.raises(Conflict):
                await Workflow(equipment).run(plan_id)
        state = await Workflow(equipment).run(plan_id)
    assert state.state == State.COMPLETE
    assert [(each.colleague_id, each.error) for each in state.inquiries.answered.values()] == [
        (own, "")
    ]
    await office.site.clear()


async def test_work_that_is_gone_is_done_again_and_its_question_was_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(answers("One."),))
    with struck(monkeypatch, RoleAnswered, is_written=False):
        await office.run()
    await office.site.clear()  # the workspace with it, as if the machine had restarted
    data, _, error = await office.run((await office.plans())[-1])
    assert error is None
    assert [each["error"] for each in data["questions"]] == ["CANCELLED", None]
    assert data["cost"]["steps"] == 7  # the plan, three turns, of which one again, and two answers


@pytest.mark.parametrize("is_taken", [False, True])
async def test_an_attempt_that_is_given_up_takes_its_questions_with_it(
    is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(answers("One."),))
    with struck(monkeypatch, RoleAnswered, is_written=False):
        await office.run()
    own, plan_id = await office.plans()
    async with open_equipment(office.environ) as equipment, AsyncExitStack() as closing:
        if is_taken:
            await closing.enter_async_context(PlanLifecycleService(equipment).owned(own))
        state = await Directing(equipment).revert(plan_id, to=Phase.STRATEGIZE)
    assert [each.error for each in state.inquiries.answered.values()] == ["CANCELLED"]
    assert state.spent.steps == 4
