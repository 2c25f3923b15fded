"""What a resume would do is said before, from the journal alone, and nothing is written."""

import json
from dataclasses import replace
from functools import partial

import pytest

from engine.worksite import ADD, Worksite
from patchyard.cli.encoding import encoded
from patchyard.contracts.actor import Turn, Wanted
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import ApprovalNeeded, GuardRefused
from patchyard.domain.events import (
    ApplyIntended,
    Body,
    Event,
    Moved,
    PhaseFailed,
    ToolCallRequested,
    TurnRequested,
    TurnTaken,
)
from patchyard.domain.plan import Phase, State
from patchyard.engine import control
from patchyard.engine.directing import Directing
from patchyard.engine.equipment import Equipment
from patchyard.engine.exporting import exported
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.outlook import Outlook, outlook
from patchyard.engine.rows import body_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

TO_EXECUTE = (
    Moved(phase=Phase.EXECUTE, state=State.QUEUED),
    Moved(phase=Phase.EXECUTE, state=State.PROCESSING),
)


async def seen(site: Worksite, equipment: Equipment, plan_id: str) -> Outlook:
    """Look, and see that looking leaves the plan as it was."""
    ledger = await site.ledger(equipment, plan_id)
    found = await outlook(equipment, ledger)
    assert (await site.ledger(equipment, plan_id)).state.version == ledger.state.version
    return found


async def recorded(equipment: Equipment, plan_id: str, *events: Event) -> Ledger:
    async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
        await ledger.record(*events)
        return ledger


def wanted(number: int, kind: ExecutionEnvironment, **more: str) -> ToolCallRequested:
    return ToolCallRequested(
        call_id=f"01C{number}",
        turn=1,
        ref=str(number),
        name="execute_command",
        arguments=Body(value={"command": "true"}),
        environment_id="gone",
        kind=kind,
        **more,
    )


async def test_a_plan_that_was_only_made_is_gone_through_phase_by_phase(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        asked = site.asked(ADD, automation_profile="manual", apply_to="worktree")
        plan_id = await site.made(workflow, asked)
        assert (await seen(site, equipment, plan_id)).steps == (
            "begin strategize",
            "begin execute",
            "capture the changes and prove them with 0 commands",
            "hand the change set over to worktree",
        )
        await workflow.strategize(plan_id)
        steps = (await seen(site, equipment, plan_id)).steps
        assert steps[0] == "ask whether to go on to execute (profile manual)"
        with pytest.raises(ApprovalNeeded):
            await workflow.resume(plan_id)
        steps = (await seen(site, equipment, plan_id)).steps
        assert steps[0].startswith("ask for the approval of execute:")
        await Directing(equipment).approve(plan_id)
        steps = (await seen(site, equipment, plan_id)).steps
        assert steps[0] == "begin execute"


async def test_a_plan_whose_work_is_done_needs_nothing_but_its_hand_over(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        await workflow.run(plan_id)
        assert (await seen(site, equipment, plan_id)).steps == ("nothing: its work is done",)
        intent = ApplyIntended(to="worktree", changeset_id="cs", record=Body(value={}))
        await recorded(equipment, plan_id, intent)
        steps = (await seen(site, equipment, plan_id)).steps
        assert steps == ("finish the apply to worktree that was cut short",)
        with pytest.raises(GuardRefused, match="cut short"):
            await Directing(equipment).revert(plan_id, to=Phase.STRATEGIZE)
        with pytest.raises(GuardRefused, match="a part of plan"):
            await Directing(equipment).correct(plan_id, "append", "more")


async def test_open_calls_and_calls_that_were_never_sent_are_named(site: Worksite) -> None:
    turn = Turn(
        calls=tuple(Wanted(ref=str(n), name="execute_command", arguments={}) for n in range(4))
    )
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        await workflow.strategize(plan_id)
        await recorded(
            equipment,
            plan_id,
            *TO_EXECUTE,
            TurnRequested(turn=1),
            TurnTaken(turn=1, note="", body=body_of(turn)),
            wanted(0, ExecutionEnvironment.HOST),
            wanted(1, ExecutionEnvironment.PROCESS, checkpoint_id="01K"),
            replace(
                wanted(2, ExecutionEnvironment.PROCESS, checkpoint_id="01K"), name="mcp__fs__write"
            ),
        )
        found = await seen(site, equipment, plan_id)
    host, process, of_others = found.open_calls
    assert "OUTCOME_UNKNOWN" in of_others.would
    assert "OUTCOME_UNKNOWN" in host.would
    assert process.would == "rolled back to checkpoint 01K and run again"
    assert found.steps[3:6] == (
        "go on with execute: replay 1 turns",
        "send execute_command, which the last turn asked for",
        "ask the actor for turn 2",
    )


async def test_words_and_pauses_are_named_before_the_way(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        directing = Directing(equipment)
        await directing.prompt(plan_id, "one")
        await directing.pause(plan_id)
        journal, clock = equipment.store.journal, equipment.clock
        said = {"text": "two", "source": "prompt"}
        await control.say(journal, clock, plan_id, control.PROMPT, **said)
        steps = (await seen(site, equipment, plan_id)).steps
        assert steps[:3] == ("end the pause", "tell the actor: one", "tell the actor: two")
        async with PlanLifecycleService(equipment).owned(plan_id):
            (step,) = (await seen(site, equipment, plan_id)).steps
    assert step.endswith("works on it")


async def test_what_is_handed_over_goes_back_only_after_it_was_taken_back(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, apply_to="worktree"))
        await workflow.run(plan_id)
        directing = Directing(equipment)
        with pytest.raises(GuardRefused, match="is handed over"):
            await directing.revert(plan_id, to=Phase.STRATEGIZE)
        with pytest.raises(GuardRefused, match="is handed over"):
            await directing.prompt(plan_id, "more")
        coded = partial(encoded, indent=None)
        export = await exported(equipment, await site.ledger(equipment, plan_id), coded=coded)
        data = json.loads("".join([piece async for piece in export.text]))
        assert data["receipt"]["to"] == "worktree"


async def test_an_apply_that_failed_leads_back_by_the_table(site: Worksite) -> None:
    failed = (
        Moved(phase=Phase.APPLY, state=State.QUEUED),
        Moved(phase=Phase.APPLY, state=State.PROCESSING),
        PhaseFailed(phase=Phase.APPLY, code="conflict", message="newer work"),
        Moved(phase=Phase.APPLY, state=State.ERRORED),
    )
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        await workflow.run(plan_id)
        await recorded(equipment, plan_id, *failed)
        directing = Directing(equipment)
        back = await directing.revert(plan_id, to=Phase.EXECUTE)
        assert (back.phase, back.state, back.turn) == (Phase.EXECUTE, State.QUEUED, 0)
        assert "newer work" in back.steered.findings[0]
        ended = await workflow.resume(plan_id)
        await recorded(equipment, plan_id, *failed[:1])
        again = await directing.revert(plan_id, to=Phase.STRATEGIZE)
    assert ended.state == State.COMPLETE
    assert (again.phase, again.state, again.reverts) == (Phase.STRATEGIZE, State.QUEUED, 2)
