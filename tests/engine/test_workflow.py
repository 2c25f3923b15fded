"""The whole job in this process: phases, guards, proof and its rounds, limits, cancel, resume."""

from dataclasses import replace
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, call, done
from patchyard.domain.budget import PlanLimits
from patchyard.domain.codec import to_json
from patchyard.domain.decision import DecisionKind
from patchyard.domain.errors import (
    Conflict,
    GuardRefused,
    LimitReached,
    ModelFailed,
    ProofFailed,
    ReconciliationBlockedError,
    StateRefusal,
)
from patchyard.domain.events import (
    LimitsChanged,
    Noted,
    ToolCallRequested,
    ToolCallSettled,
    Validated,
)
from patchyard.domain.invariant import Invariant, Scope
from patchyard.domain.plan import Phase, State
from patchyard.engine.handing import Handing
from patchyard.engine.report import plan_data
from patchyard.engine.workflow import Workflow
from patchyard.intake import spec_of
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

CHECK = "test -e new.txt"


@pytest.fixture
def files() -> dict[str, str]:
    return {"a.txt": "one\n", "check.sh": "grep -q two a.txt\n"}


async def run(site: Worksite, workflow: Workflow, *execute: Any, **options: Any) -> str:
    plan_id = await site.made(workflow, site.asked(*execute, **options))
    await workflow.run(plan_id)
    return plan_id


def settled(site: Worksite) -> list[ToolCallSettled]:
    return [event for event in site.heard if isinstance(event, ToolCallSettled)]


async def test_a_task_becomes_a_proven_change_set_and_the_checkout_is_untouched(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD, validate=(CHECK,))
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert (data["phase"], data["state"]) == ("execute", "complete")
    assert [(f["path"], f["status"]) for f in data["changeset"]["files"]] == [("new.txt", "added")]
    assert data["changeset"]["files"][0]["call_id"] == settled(site)[-1].call_id
    (gate,) = data["validation"]
    assert (gate["passed"], gate["before"]["passed"]) == (True, False)
    assert data["proven_tree"] == data["changeset"]["tree"]
    assert not (site.repository / "new.txt").exists()
    assert data["execution"]["tool_calls"] == 1
    assert data["execution"]["sandbox_refs"]
    assert data["reach"] == {
        "kind": "process",
        "walls": "process",
        "also": [],
        "network": {
            "summary": "none",
            "hosts": [],
            "gateways": [],
            "repository": None,
            "planning": False,
            "attempts": 0,
            "refused": 0,
            "up_bytes": 0,
            "down_bytes": 0,
            "places": [],
        },
        "secrets": [],
        "variables": [],
        "mounts": [],
    }


async def test_the_decision_tree_has_one_root_and_the_strategy_below_it(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD)
        state = (await site.ledger(equipment, plan_id)).state
    roots = [d for d in state.decisions if d.parent_id is None]
    assert [root.kind for root in roots] == [DecisionKind.PROMPT_DEFINITION]
    assert state.decision_root_id == roots[0].decision_id
    choices = [d for d in state.decisions if d.kind == DecisionKind.STRATEGY_CHOICE]
    assert [choice.parent_id for choice in choices] == [roots[0].decision_id]


async def test_a_plan_killed_while_its_strategy_is_recorded_has_each_decision_once(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = SQLiteJournal.append

    async def dying(self: SQLiteJournal, *args: Any, **options: Any) -> int:
        if any(event.type == "StrategyRecorded" for event in args[2]):
            raise RuntimeError("killed")
        return await append(self, *args, **options)

    async with site.open() as (_, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        with monkeypatch.context() as patching:
            patching.setattr(SQLiteJournal, "append", dying)
            with pytest.raises(RuntimeError, match="killed"):
                await workflow.run(plan_id)
        state = await workflow.run(plan_id)
    kinds = [decision.kind for decision in state.decisions]
    assert kinds == [DecisionKind.PROMPT_DEFINITION, DecisionKind.STRATEGY_CHOICE]


async def test_planning_cannot_write_by_tool_or_by_shell(site: Worksite) -> None:
    strategize = [
        call("write_file", path="x", content="x"),
        call("execute_command", command="touch planted"),
        done("a plan"),
    ]
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(strategize=strategize))
        await workflow.strategize(plan_id)
        state = (await site.ledger(equipment, plan_id)).state
    assert (state.phase, state.state) == (Phase.STRATEGIZE, State.COMPLETE)
    first, second = settled(site)
    assert first.error == "READ_ONLY"
    asked = next(event for event in site.heard if isinstance(event, ToolCallRequested))
    assert asked.arguments.value == {"path": "x", "content": "x"}  # a line can show the path
    assert not second.success
    assert state.environments == {}


async def test_commands_are_refused_while_planning_on_the_host_with_the_cure(
    site: Worksite,
) -> None:
    strategize = [call("execute_command", command="touch x"), done("a plan")]
    async with site.open() as (_, workflow):
        plan_id = await site.made(workflow, site.asked(strategize=strategize, kind="host"))
        await workflow.strategize(plan_id)
    (refused,) = settled(site)
    assert refused.error == "READ_ONLY"
    assert "--in process" in refused.message


async def test_execute_is_refused_before_strategize_is_complete(site: Worksite) -> None:
    async with site.open() as (_, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        with pytest.raises(GuardRefused, match="complete strategize"):
            await workflow.execute(plan_id)


async def test_each_phase_may_be_asked_for_twice(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        for _ in range(2):
            await workflow.strategize(plan_id)
        for _ in range(2):
            await workflow.execute(plan_id)
        state = (await site.ledger(equipment, plan_id)).state
    assert (state.phase, state.state, state.tool_calls) == (Phase.EXECUTE, State.COMPLETE, 1)


async def test_a_failed_proof_goes_back_to_the_actor_with_its_output(site: Worksite) -> None:
    mend = call("write_file", path="a.txt", content="two\n")
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD, done("first try"), mend, validate=("sh check.sh",))
        state = (await site.ledger(equipment, plan_id)).state
    rounds = [event.passed for event in site.heard if isinstance(event, Validated)]
    assert rounds == [False, True]
    assert (state.state, state.summary) == (State.COMPLETE, "done")


async def test_a_proof_that_never_passes_leaves_the_plan_constrained(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(
            workflow, site.asked(ADD, done("a"), validate=("exit 3",), rounds=1)
        )
        with pytest.raises(ProofFailed):
            await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert (data["phase"], data["state"]) == ("execute", "constrained")
    assert data["validation"][0]["exit_code"] == 3
    assert data["changed"]
    assert "exit 3" in data["error_message"]


async def test_hand_over_is_refused_while_nothing_is_proven_complete(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        ledger = await site.ledger(equipment, plan_id)
        with pytest.raises(GuardRefused, match="complete execute"):
            await Handing(equipment, ledger).apply("worktree")


async def test_apply_writes_once_and_unapply_takes_it_back(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD, apply_to="worktree")
        assert (site.repository / "new.txt").read_text() == "new\n"
        ledger = await site.ledger(equipment, plan_id)
        assert (ledger.state.phase, ledger.state.state) == (Phase.APPLY, State.APPLIED)
        await Handing(equipment, ledger).apply("worktree")
        await Handing(equipment, ledger).unapply()
        assert not (site.repository / "new.txt").exists()
        with pytest.raises(GuardRefused, match="nothing of this plan"):
            await Handing(equipment, ledger).unapply()


async def test_a_conflict_with_newer_work_loses_nothing(site: Worksite) -> None:
    edit = call("write_file", path="a.txt", content="agent\n")
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, edit)
        (site.repository / "a.txt").write_text("mine\n")
        ledger = await site.ledger(equipment, plan_id)
        with pytest.raises(Conflict, match=r"a\.txt"):
            await Handing(equipment, ledger).apply("worktree")
    assert (site.repository / "a.txt").read_text() == "mine\n"


async def test_a_protected_path_needs_its_word(site: Worksite) -> None:
    plant = call("write_file", path=".envrc", content="rm -rf ~\n")
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, plant)
        ledger = await site.ledger(equipment, plan_id)
        with pytest.raises(StateRefusal, match=r"\.envrc"):
            await Handing(equipment, ledger).apply("worktree")
        assert not (site.repository / ".envrc").exists()
        await Handing(equipment, ledger).apply("worktree", allow_paths=(".envrc",))
    assert (site.repository / ".envrc").exists()


@pytest.mark.parametrize(
    ("options", "said"), [({"steps": 2}, "2 steps"), ({"tokens": 10}, "10 tokens")]
)
async def test_a_limit_ends_the_plan_and_keeps_what_it_has(
    site: Worksite, options: dict[str, Any], said: str
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, ADD, ADD, ADD, **options))
        with pytest.raises(LimitReached, match=said) as caught:
            await workflow.run(plan_id)
        state = (await site.ledger(equipment, plan_id)).state
        assert caught.value.exit_code == 5
        assert state.state == State.CONSTRAINED
        assert state.environments == {}
        ledger = await site.ledger(equipment, plan_id)
        await ledger.record(LimitsChanged(limits=PlanLimits()))
        resumed = await workflow.run(plan_id)
    assert (resumed.phase, resumed.state) == (Phase.EXECUTE, State.COMPLETE)


async def test_what_the_actor_asks_for_in_vain_is_a_result_for_it(site: Worksite) -> None:
    wrong = [
        call("fly", height=3),
        call("read_file"),
        call("read_output", call_id="01NOSUCH"),
        call("read_file", path="/etc/passwd"),
    ]
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, *wrong, ADD)
        state = (await site.ledger(equipment, plan_id)).state
    assert state.state == State.COMPLETE
    assert all(not event.success for event in settled(site)[:-1])
    assert all(event.message for event in settled(site))


async def test_a_model_that_fails_leaves_the_plan_errored_with_message_and_details(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        asked = site.asked(ADD)
        site.script([ADD])
        plan_id = await site.made(workflow, asked)
        with pytest.raises(ModelFailed):
            await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert (data["phase"], data["state"]) == ("execute", "errored")
    assert "script" in data["error_message"]
    assert data["error_details"]["phase"] == "execute"
    assert data["strategy"]["summary"]


async def _with_invariant(site: Worksite, workflow: Workflow, check: str, *execute: Any) -> str:
    spec = spec_of(site.asked(*execute, rounds=0), site.environ)
    invariant = Invariant(invariant_id="I", text="a is kept", scope=Scope.PLAN, check=check)
    return await workflow.create(replace(spec, invariants=(invariant,)))


async def test_an_invariant_is_checked_before_and_after_and_recorded_as_a_decision(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await _with_invariant(site, workflow, "grep -q one a.txt", ADD)
        await workflow.run(plan_id)
        state = (await site.ledger(equipment, plan_id)).state
    assert [(check.when, check.passed) for check in state.invariants] == [
        ("before", True),
        ("after", True),
    ]
    enforced = [d for d in state.decisions if d.kind == DecisionKind.INVARIANT_ENFORCED]
    assert [d.choice for d in enforced] == ["a is kept"]


@pytest.mark.parametrize(
    ("check", "when"), [("grep -q three a.txt", "before"), ("test ! -e new.txt", "after")]
)
async def test_a_broken_invariant_blocks_the_plan(site: Worksite, check: str, when: str) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await _with_invariant(site, workflow, check, ADD)
        with pytest.raises(ReconciliationBlockedError, match=when):
            await workflow.run(plan_id)
        state = (await site.ledger(equipment, plan_id)).state
    assert (state.phase, state.state) == (Phase.EXECUTE, State.CONSTRAINED)


async def test_the_proof_sees_nothing_of_the_actors_processes_and_ignored_files(
    site: Worksite,
) -> None:
    (site.repository / ".gitignore").write_text("ignored.txt\n")
    hide = call("execute_command", command="echo two > ignored.txt; (sleep 300 &) ; true")
    async with site.open() as (equipment, workflow):
        asked = site.asked(hide, ADD, done("x"), validate=("test -e ignored.txt",), rounds=0)
        plan_id = await site.made(workflow, asked)
        with pytest.raises(ProofFailed):
            await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert [f["path"] for f in data["changeset"]["files"]] == ["new.txt"]


async def test_an_empty_change_set_is_said_and_not_applied(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        look = call("read_file", path="a.txt")
        plan_id = await run(site, workflow, look, done("nothing to do"), apply_to="worktree")
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert (data["changed"], data["applied"]) == (False, None)


async def test_who_watches_hears_why_a_finish_was_not_accepted(site: Worksite) -> None:
    async with site.open() as (_, workflow):
        await run(site, workflow, done("first try"))
    said = [event.text for event in site.heard if isinstance(event, Noted)]
    assert said == ["the model finished without a change: asked back once"]


async def test_the_event_log_can_be_turned_into_json(site: Worksite) -> None:
    async with site.open() as (_, workflow):
        await run(site, workflow, ADD)
    assert all(isinstance(to_json(event), dict) for event in site.heard)
