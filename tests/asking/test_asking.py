"""An actor asks another role: the answer is a result, journalled, bounded and given once."""

import json
from pathlib import Path
from typing import Any

import pytest

from asking.office import ASKS, Office, answers, told
from engine.worksite import ADD, call, done
from patchyard.assembly import open_equipment
from patchyard.domain.errors import ApprovalNeeded, LimitReached, WorkFailed
from patchyard.domain.events import Noted, ToolCallSettled
from patchyard.domain.inquiries import ANSWER_CHARS
from patchyard.engine.directing import Directing
from patchyard.engine.inquiring import Inquiries
from patchyard.engine.products import plans_beside
from patchyard.engine.replaying import replay
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


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


async def test_who_is_asked_is_bounded_by_its_own_role_too(tmp_path: Path) -> None:
    looks = [call("read_file", path="a.txt")] * 9
    office = Office(tmp_path, developer=(ASKS, ADD, done()), architect=looks)
    office.own_role("architect", "output: record\nlimits: {max_steps: 3}\n")
    data, events, error = await office.run()
    assert error is None
    assert told(events)[0].error == "LIMIT_REACHED"
    (row,) = data["questions"]
    assert row["steps"] == 3


async def test_the_calls_of_who_was_asked_count_against_the_limit(tmp_path: Path) -> None:
    looks = [call("read_file", path="a.txt")] * 3
    office = Office(
        tmp_path, developer=(ASKS, ASKS, ADD, done()), architect=(*looks, answers("One."))
    )
    (office.config / "config.yaml").write_text("limits: {max_calls: 6}\n")
    data, events, error = await office.run()
    assert isinstance(error, LimitReached)
    assert [each.error for each in told(events)] == [None, "LIMIT_REACHED"]
    calls = [data["execution"]["tool_calls"]]
    for row in data["questions"]:
        async with office.ledger(row["plan_id"]) as own:
            calls.append(own.state.tool_calls)
    assert calls == [2, 3, 1]  # six, whoever made them


async def test_work_that_cannot_be_seen_is_asked_about_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(answers("One."),))
    real, troubles = Inquiries._seen, [WorkFailed("it changes")]

    async def seen(asking: Inquiries) -> tuple[str, int]:
        async def capture(*_: Any, **__: Any) -> None:
            raise troubles.pop()

        with monkeypatch.context() as patch:
            patch.setattr(type(asking._equipment.workspaces), "capture", capture)
            return await real(asking)

    monkeypatch.setattr(Inquiries, "_seen", seen)
    data, events, error = await office.run()
    assert (error, data["questions"][0]["changes"]) == (None, 0)
    (settled,) = told(events)
    assert settled.data.value["about"] == "the repository as it was before the work"
    noted = [each.text for each in events if isinstance(each, Noted)]
    assert "the work cannot be shown as it is now: it changes" in noted


async def test_a_person_can_be_asked_first_and_colleagues_stand_below_the_tree(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path, developer=(ADD, ASKS, done()), architect=(answers("One."),))
    (office.config / "config.yaml").write_text("approvals: [ask_role]\n")
    data, _, error = await office.run()
    assert isinstance(error, ApprovalNeeded)
    assert data["questions"] == []
    async with open_equipment(office.environ) as equipment:
        await Directing(equipment).approve(data["plan_id"])
    data, events, error = await office.run(data["plan_id"])
    assert (error, told(events)[0].success) == (None, True)
    async with office.ledger(data["plan_id"]) as ledger:
        (row,) = plans_beside(ledger.state)
    assert (row["role"], row["did"]) == ("architect", "was asked")


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
