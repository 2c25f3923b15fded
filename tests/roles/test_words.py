"""What is said to a plan while a colleague looks at its work: it reaches both."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from asking.office import ASKS, Office, answers
from engine.worksite import ADD, call, done
from patchyard.assembly import open_equipment
from patchyard.domain.codec import to_json
from patchyard.domain.colleagues import ColleagueHeard
from patchyard.domain.errors import PlanPaused
from patchyard.domain.events import Event, LimitsChanged, ToolCallRequested, TurnTaken
from patchyard.domain.plan import State
from patchyard.domain.state import PlanState
from patchyard.domain.steering import Guided
from patchyard.engine import control
from patchyard.engine.ledger import Ledger
from patchyard.engine.owning import Cancelled
from patchyard.engine.steering import Steering
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of
from roles.test_colleagues import APPROVES, ZERO, Team

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

PROVEN = ("test -e calc.py",)
LOOKS = call("read_file", path="calc.py")
WRITES = call("write_file", path="calc.py", content=ZERO)


def said_meanwhile(monkeypatch: pytest.MonkeyPatch, word: str, text: str = "") -> None:
    """Say a word to the plan once the reviewer makes its first call."""
    said: list[str] = []
    real = Ledger.record

    async def record(ledger: Ledger, *events: Event) -> None:
        await real(ledger, *events)
        lineage = ledger.state.known.lineage
        if lineage is not None and isinstance(events[0], ToolCallRequested) and not said:
            said.append(word)
            await control.say(
                ledger._store.journal, ledger._clock, lineage.plan_id, word, text=text, source="t"
            )

    monkeypatch.setattr(Ledger, "record", record)


async def colleague_of(team: Team, plan_id: str) -> tuple[PlanState, list[Event]]:
    """Return the reviewer's plan, and what happened in it."""
    async with open_equipment(team.environ) as equipment:
        rows = await equipment.store.summaries.summaries()
        (other,) = [stream for stream, _ in rows if stream != plan_id]
        ledger = await team.site.ledger(equipment, other)
        return ledger.state, [event for _, _, event in await ledger.events()]


async def test_a_pause_holds_the_colleague_after_its_call_and_both_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = Team(tmp_path, developer=(WRITES, done()), reviewer=(LOOKS, LOOKS, LOOKS, APPROVES))
    said_meanwhile(monkeypatch, control.PAUSE)
    data, _, error = await team.run(validate=PROVEN)
    assert isinstance(error, PlanPaused)
    assert data["plan_id"] in error.message
    state, _ = await colleague_of(team, data["plan_id"])
    assert (state.tool_calls, state.steered.paused, state.failure) == (1, None, None)
    assert data["cost"]["steps"] == 3 + state.spent.steps
    async with open_equipment(team.environ) as equipment:
        await Workflow(equipment).resume(data["plan_id"])
    data, events, error = await team.run(data["plan_id"])
    assert (error, data["colleagues"][-1]["verdict"]) == (None, "approve")
    assert sum(isinstance(event, ColleagueHeard) for event in events) == 1
    assert data["cost"]["steps"] == 8


async def test_what_a_cancelled_colleague_used_is_counted_and_not_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = call("execute_command", command="while true; do sleep 0.05; done")
    team = Team(tmp_path, developer=(WRITES, done()), reviewer=(LOOKS, looking))
    said_meanwhile(monkeypatch, control.CANCEL)
    data, _, error = await team.run(validate=PROVEN)
    assert isinstance(error, Cancelled)
    state, _ = await colleague_of(team, data["plan_id"])
    assert data["cost"]["steps"] == 3 + state.spent.steps > 4
    (tmp_path / "reviewer.json").write_text(json.dumps({"execute": [LOOKS, looking, APPROVES]}))
    async with open_equipment(team.environ) as equipment:
        await Workflow(equipment).resume(data["plan_id"])
    data, _, error = await team.run(data["plan_id"])
    state, _ = await colleague_of(team, data["plan_id"])
    assert (error, data["cost"]["steps"]) == (None, 3 + state.spent.steps)


async def test_a_pause_holds_an_asked_role_and_its_answer_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = call("read_file", path="a.txt")
    replies = (read, read, answers("One."))
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=replies)
    said_meanwhile(monkeypatch, control.PAUSE)
    async with open_equipment(office.environ) as equipment:
        workflow = Workflow(equipment)
        repository = str(office.site.repository)
        spec = spec_of(Asked(task="t", kind="process", repository=repository), office.environ)
        plan_id = await workflow.create(spec)
        with pytest.raises(PlanPaused, match=plan_id):
            await workflow.run(plan_id)
        state = (await office.site.ledger(equipment, plan_id)).state
        (other,) = set(await office.plans()) - {plan_id}
        own = (await office.site.ledger(equipment, other)).state
        assert (own.tool_calls, own.steered.paused) == (1, None)
        assert state.spent.steps == 3 + own.spent.steps
        state = await workflow.resume(plan_id)
        own = (await office.site.ledger(equipment, other)).state
    await office.site.clear()
    assert (state.state, own.answer is not None) == (State.COMPLETE, True)
    assert state.spent.steps == 4 + own.spent.steps


async def test_guidance_is_told_to_the_colleague_and_to_the_plans_own_actor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = Team(
        tmp_path, developer=(WRITES, done(), done("as told")), reviewer=(LOOKS, LOOKS, APPROVES)
    )
    said_meanwhile(monkeypatch, control.PROMPT, "Mind the tests.")
    data, events, error = await team.run(validate=PROVEN)
    assert (error, data["summary"]) == (None, "as told")
    _, others = await colleague_of(team, data["plan_id"])
    for happened in (events, others):
        (guided,) = [event for event in happened if isinstance(event, Guided)]
        assert guided.text == "Mind the tests."
        told = [event.guidance for event in happened if isinstance(event, TurnTaken)]
        (heard,) = filter(None, told)
        assert heard.endswith("Mind the tests.")


async def test_a_raised_limit_lets_the_colleague_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = Team(tmp_path, developer=(WRITES, done()), reviewer=(LOOKS, LOOKS, LOOKS, APPROVES))
    raised = replace(team.spec().limits, steps=50, seconds=1000.0)
    said_meanwhile(monkeypatch, control.LIMIT, json.dumps(to_json(raised)))
    data, _, error = await team.run(validate=PROVEN, steps=6)
    assert (error, data["cost"]["steps"]) == (None, 8)
    _, others = await colleague_of(team, data["plan_id"])
    limits = [event.limits for event in others if isinstance(event, LimitsChanged)]
    assert [each.steps for each in limits] == [3, 47]
    assert 900 < (limits[-1].seconds or 0) < 1000


async def test_a_wait_of_the_colleague_ends_with_the_pause_of_the_plan(tmp_path: Path) -> None:
    team = Team(tmp_path, developer=(done(),))
    async with open_equipment(team.environ) as equipment:
        workflow = Workflow(equipment)
        ids = [await workflow.create(team.spec()) for _ in range(2)]
        ledgers = [await team.site.ledger(equipment, plan_id) for plan_id in ids]
        elder, own = (Steering(equipment, ledger) for ledger in ledgers)
        own.follow(elder, elder.step)
        elder.hear(control.Word(number=1, word=control.PAUSE))
        with pytest.raises(PlanPaused, match=ids[0]):
            await own.wait(60)


class Struck(BaseException):
    """What a kill looks like from inside."""


async def test_a_colleague_that_a_kill_left_at_work_ends_with_the_plan_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = Team(tmp_path, developer=(WRITES, done()), reviewer=(LOOKS, LOOKS, APPROVES))
    real = Ledger.record

    async def record(ledger: Ledger, *events: Event) -> None:
        await real(ledger, *events)
        if ledger.state.known.role == "reviewer" and ledger.state.tool_calls == 2:
            raise Struck

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record", record)
        with pytest.raises(Struck):
            await team.run()
    async with open_equipment(team.environ) as equipment:
        rows = await equipment.store.summaries.summaries()
        plan_id = rows[-1][0]
        await Workflow(equipment).cancel(plan_id)
        before = (await team.site.ledger(equipment, plan_id)).state
        await Workflow(equipment).cancel(plan_id)  # again: nothing is counted twice
        state = (await team.site.ledger(equipment, plan_id)).state
    other, _ = await colleague_of(team, plan_id)
    assert (other.state, other.open_calls) == (State.CANCELLED, {})
    assert state.spent.steps == before.spent.steps == 3 + other.spent.steps > 3
    assert state.colleagues.calls == other.tool_calls == 2
    data, _, error = await team.run(plan_id)
    assert (error, data["colleagues"][-1]["verdict"]) == (None, "approve")
