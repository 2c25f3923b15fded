"""An actor asks another role: the answer is a result, journalled, bounded and given once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asking.office import ASKS, Office, answers
from engine.worksite import ADD, call, done
from patchyard.assembly import open_equipment
from patchyard.domain.events import Event, PlanCreated, ToolCallRequested, ToolCallSettled
from patchyard.domain.inquiries import ANSWER_CHARS, RoleAnswered, RoleAsked
from patchyard.domain.plan import State
from patchyard.engine.ledger import Ledger
from patchyard.engine.outlook import outlook
from patchyard.engine.replaying import replay
from patchyard.engine.waiting import waiting
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


def told(events: list[Any], name: str = "ask_role") -> list[ToolCallSettled]:
    """Return what the calls of a tool came to."""
    named = {e.call_id for e in events if isinstance(e, ToolCallRequested) and e.name == name}
    return [e for e in events if isinstance(e, ToolCallSettled) and e.call_id in named]


async def test_an_answer_is_the_result_of_the_call_and_is_paid_by_who_asked(tmp_path: Path) -> None:
    look = call("execute_command", command="cat new.txt && ! touch x")
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(look, answers("One.")))
    data, events, error = await office.run()
    assert error is None
    (settled,) = told(events)
    assert settled.success
    (row,) = data["questions"]
    assert settled.message == f"the architect answers in plan {row['plan_id']}"
    assert (row["role"], row["question"]) == ("architect", "One queue or two?")
    assert (row["is_answered"], row["error"], row["changes"]) == (True, None, 1)
    async with office.ledger(row["plan_id"]) as own:
        body = await own.value(settled.data)
        assert body["answer"] == "One."
        assert body["about"] == "the work as it was then (1 changed file)"
        seen = [e for _, _, e in await own.events() if isinstance(e, ToolCallSettled)]
        assert [(e.success, (await own.value(e.data))["stdout"]) for e in seen] == [(True, "new\n")]
        assert own.state.known.askable == ()  # nobody asks on
        assert own.state.known.task.startswith("A colleague (developer) asks you")
        assert own.state.spent.tokens == row["tokens"] > 0
    assert data["cost"]["steps"] == 4 + row["steps"]  # planned, then three turns
    assert [each["path"] for each in data["changeset"]["files"]] == ["new.txt"]


async def test_who_plans_or_reads_asks_about_the_base(tmp_path: Path) -> None:
    office = Office(tmp_path, reviewer=(ASKS, call("finish", summary="ok", verdict="approve")))
    office.script("architect", answers("x" * (ANSWER_CHARS + 1)))
    chains = {
        role: {"provider": "scripted", "default_model": str(tmp_path / f"{role}.json")}
        for role in ("architect", "developer", "reviewer")
    }
    (office.config / "models.yaml").write_text(json.dumps({"roles": chains}))
    data, events, error = await office.run(role="reviewer")
    assert (error, data["questions"][0]["changes"]) == (None, 0)
    async with office.ledger(data["questions"][0]["plan_id"]) as own:
        body = await own.value(told(events)[0].data)
    assert body["about"] == "the repository as it was before the work"
    assert body["answer"].endswith(f"(cut: it had {ANSWER_CHARS + 1:,} characters)")
    office.script("developer", ADD, done(), strategize=[ASKS, done("plan")])
    data, events, error = await office.run()
    assert (error, told(events)[0].success) == (None, True)


@pytest.mark.parametrize(
    ("asks", "code", "words"),
    [
        (call("ask_role", role="architcet", question="?"), "VALIDATION_ERROR", "one of"),
        (call("ask_role", role="tester", question="?"), "VALIDATION_ERROR", "one of `architect`"),
        (call("ask_role", role="architect"), "VALIDATION_ERROR", "needs"),
        (call("ask_role", role="reviewer", question="x" * 20_001), "VALIDATION_ERROR", "20,001"),
    ],
)
async def test_a_question_that_cannot_be_put_is_told(
    asks: dict[str, Any], code: str, words: str, tmp_path: Path
) -> None:
    office = Office(tmp_path, developer=(asks, ADD, done()))
    data, events, error = await office.run()
    (settled,) = told(events)
    assert (error, settled.error, data["questions"]) == (None, code, [])
    assert words in settled.message
    assert len(await office.plans()) == 1


async def test_a_role_asks_so_often_as_its_policy_says(tmp_path: Path) -> None:
    office = Office(tmp_path, developer=(ASKS, ASKS, ADD, done()), architect=(answers("One."),))
    office.own_role("developer", "may_ask: [architect]\nmax_asks: 1\n")
    data, events, error = await office.run()
    assert error is None
    assert [each.error for each in told(events)] == [None, "ASKED_ENOUGH"]
    assert len(data["questions"]) == 1


async def test_who_may_ask_nobody_is_not_offered_the_tool(tmp_path: Path) -> None:
    office = Office(tmp_path, developer=(ASKS, ADD, done()), architect=(answers("One."),))
    office.own_role("developer", "may_ask: [architect]\nmax_asks: 0\n")
    data, events, _ = await office.run()
    assert [each.error for each in told(events)] == ["UNKNOWN_TOOL"]
    office.own_role("developer", "may_ask: [architect]\n")
    office.own_role("architect", "environments: [vm]\n")  # it cannot work where this plan does
    data, events, _ = await office.run()
    assert [each.error for each in told(events)] == ["UNKNOWN_TOOL"]
    assert data["questions"] == []


async def test_a_colleague_that_cannot_answer_is_a_result(tmp_path: Path) -> None:
    fails = call("finish", summary="no idea", failed=True)
    office = Office(tmp_path, developer=(ASKS, ADD, done()), architect=(fails,))
    data, events, error = await office.run()
    (settled,) = told(events)
    assert (error, settled.error) == (None, "ROLE_FAILED")
    assert settled.message.endswith(": no idea")
    (row,) = data["questions"]
    assert (row["is_answered"], row["error"], row["steps"]) == (False, "ROLE_FAILED", 1)


async def test_a_colleague_has_what_is_left_of_the_limits(tmp_path: Path) -> None:
    looks = [call("read_file", path="a.txt")] * 9
    office = Office(tmp_path, developer=(ASKS, ADD, done()), architect=looks)
    data, events, _ = await office.run(steps=6)
    assert told(events)[0].error == "LIMIT_REACHED"
    assert data["cost"]["steps"] == 6


class Struck(BaseException):
    """What a kill looks like from inside: nothing after it runs."""


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


async def test_a_cancelled_question_counts_and_its_plan_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(answers("One."),))
    real = Ledger.record

    async def record(ledger: Ledger, *events: Event) -> None:
        if isinstance(events[0], RoleAnswered):
            raise Struck
        await real(ledger, *events)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record", record)
        with pytest.raises(Struck):
            await office.run()
    plan_id = (await office.plans())[-1]
    async with open_equipment(office.environ) as equipment:
        await Workflow(equipment).cancel(plan_id)
    async with office.ledger(plan_id) as ledger:
        (answered,) = ledger.state.inquiries.answered.values()
        assert ledger.state.state == State.CANCELLED
        assert (answered.error, answered.steps) == ("CANCELLED", 1)
    resumed, events, error = await office.run(plan_id)
    assert (error, resumed["questions"][0]["error"]) == (None, "CANCELLED")
    assert [each.error for each in told(events)] == ["CANCELLED"]


async def test_a_replay_asks_nobody(tmp_path: Path) -> None:
    office = Office(tmp_path, developer=(ASKS, ADD, done()), architect=(answers("One."),))
    data, _, error = await office.run()
    assert error is None
    async with open_equipment(office.environ) as equipment:
        outcome = await replay(equipment, Workflow(equipment), data["plan_id"])
    await office.site.clear()
    assert (outcome.is_same, len(await office.plans())) == (True, 3)


async def test_a_role_that_answers_can_be_run_alone(tmp_path: Path) -> None:
    office = Office(tmp_path, expert=(answers("It is a."),))
    office.own_role("expert", "output: answer\n")
    data, _, error = await office.run(role="expert")
    assert (error, data["answer"], data["changed"]) == (None, "It is a.", False)
