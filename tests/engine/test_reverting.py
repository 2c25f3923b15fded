"""Plans that go back: counted, bounded, told what was found, begun on the base."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from engine.held import WAITING, release, said
from engine.told import ENDING, Recorder, heard, until, with_actor, writing
from engine.worksite import ADD, Worksite, done
from patchyard.contracts.actor import Brief, Casting
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.errors import Conflict, GuardRefused, PlanPaused, ProofFailed
from patchyard.domain.events import ToolCallRequested
from patchyard.domain.plan import Phase, State
from patchyard.domain.steering import Paused
from patchyard.engine.directing import Directing
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.rolling_back import roll_back
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


async def test_a_revert_tells_the_next_strategy_what_failed_and_begins_on_the_base(
    site: Worksite,
) -> None:
    recorder = Recorder([writing(1), ENDING])
    strategist = Recorder([ENDING])
    async with site.open() as (equipment, _):

        async def actor(casting: Casting) -> Any:
            return recorder if casting.phase == Phase.EXECUTE else strategist

        equipped = replace(equipment, actor=actor)
        workflow = Workflow(equipped)
        asked = site.asked(ADD, validate=("echo no such luck; test -e 2.txt",), rounds=0)
        plan_id = await site.made(workflow, asked)
        with pytest.raises(ProofFailed):
            await workflow.run(plan_id)
        directing = Directing(equipment)
        reverted = await directing.revert(plan_id, to=Phase.STRATEGIZE, reason="another file")
        assert (reverted.phase, reverted.state) == (Phase.STRATEGIZE, State.QUEUED)
        assert reverted.reverts == 1
        assert (reverted.changeset, reverted.validation, reverted.summary) == (None, None, "")
        recorder.turns = [writing(2), ENDING]
        ended = await workflow.resume(plan_id)
    (findings,) = strategist.briefs[-1].findings
    assert "another file" in findings
    assert "no such luck" in findings
    assert ended.state == State.COMPLETE
    assert ended.changeset is not None
    assert ended.changeset.files == 1  # nothing of the first attempt is left


async def strategized(workflow: Workflow, plan_id: str) -> str:
    await workflow.strategize(plan_id)
    return plan_id


async def test_reverts_are_bounded_and_refused_where_they_lead_nowhere(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        directing = Directing(equipment)
        with pytest.raises(GuardRefused, match="nothing to go back from"):
            await directing.revert(plan_id, to=Phase.STRATEGIZE)
        with pytest.raises(GuardRefused, match="execute has not begun"):
            await directing.revert(plan_id, to=Phase.EXECUTE)
        await workflow.execute(await strategized(workflow, plan_id))
        await directing.revert(plan_id, to=Phase.EXECUTE)
        with pytest.raises(GuardRefused, match="execute/queued already") as caught:
            await directing.revert(plan_id, to=Phase.EXECUTE)
        assert f"agents plan resume {plan_id}" in caught.value.hint
        await directing.revert(plan_id, to=Phase.STRATEGIZE)
        for _ in range(3):
            await directing.revert(await strategized(workflow, plan_id), to=Phase.STRATEGIZE)
        await workflow.strategize(plan_id)
        with pytest.raises(GuardRefused, match="went back 5 times"):
            await directing.revert(plan_id, to=Phase.STRATEGIZE)


async def test_a_profile_that_allows_it_finds_another_way_by_itself(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder([writing(1), ENDING])
    async with site.open() as (equipment, _):
        equipped = with_actor(equipment, recorder)
        begin = recorder.begin

        async def other_way(brief: Brief) -> Recorder:
            if brief.findings:
                recorder.turns = [writing(2), ENDING]
            return await begin(brief)

        monkeypatch.setattr(recorder, "begin", other_way)
        workflow = Workflow(equipped)
        asked = site.asked(
            ADD, validate=("test -e 2.txt",), rounds=0, automation_profile="full-auto"
        )
        ended = await workflow.run(await site.made(workflow, asked))
    assert (ended.phase, ended.state, ended.reverts) == (Phase.EXECUTE, State.COMPLETE, 1)


async def test_a_correction_plans_anew_with_the_guidance(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        await workflow.run(plan_id)
        corrected = await Directing(equipment).correct(plan_id, "revert", "in another folder")
    assert (corrected.phase, corrected.state) == (Phase.STRATEGIZE, State.QUEUED)
    assert corrected.steered.findings == ("in another folder",)


async def test_who_carries_a_plan_on_is_not_reverted_from_elsewhere(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(WAITING))
        working = asyncio.create_task(workflow.run(plan_id))
        await until(site, ToolCallRequested)
        with pytest.raises(Conflict):
            await Directing(equipment).revert(plan_id, to=Phase.STRATEGIZE)
        release(site)
        await working


async def test_a_paused_plan_goes_back_when_it_is_told_to(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(WAITING, done()))
        working = asyncio.create_task(workflow.run(plan_id))
        await until(site, ToolCallRequested)
        pausing = asyncio.create_task(Directing(equipment).pause(plan_id))
        await said(equipment, plan_id)
        release(site)
        await pausing
        with pytest.raises(PlanPaused):
            await working
        assert heard(site, Paused)
        reverted = await Directing(equipment).revert(plan_id, to=Phase.EXECUTE)
        assert (reverted.phase, reverted.state, reverted.turn) == (Phase.EXECUTE, State.QUEUED, 0)
        site.heard.clear()
        resuming = asyncio.create_task(workflow.resume(plan_id))
        await until(site, ToolCallRequested)
        release(site)
        ended = await resuming
    assert ended.state == State.COMPLETE


async def test_a_kill_between_going_back_and_beginning_anew_leaves_nothing_of_the_first(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder([writing(1), ENDING])
    async with site.open() as (equipment, _):
        equipped = with_actor(equipment, recorder)
        workflow = Workflow(equipped)
        plan_id = await site.made(workflow, site.asked(ADD))
        await workflow.run(plan_id)
        await Directing(equipped).revert(plan_id, to=Phase.EXECUTE)
        recorder.turns = [writing(2), ENDING]
        removed = equipped.workspaces.remove
        lives = iter((True, False))

        async def killed(workspace: WorkspaceRef) -> None:
            await removed(workspace)
            if next(lives, False):
                raise KeyError("killed after it was removed, before that was journalled")

        monkeypatch.setattr(equipped.workspaces, "remove", killed)
        with pytest.raises(KeyError):
            await workflow.resume(plan_id)
        ended = await workflow.resume(plan_id)
    assert ended.changeset is not None
    assert ended.changeset.files == 1
    assert ended.state == State.COMPLETE


async def test_a_rollback_to_an_attempt_that_was_given_up_has_its_files(site: Worksite) -> None:
    recorder = Recorder([writing(1), ENDING])
    async with site.open() as (equipment, _):
        equipped = with_actor(equipment, recorder)
        workflow = Workflow(equipped)
        plan_id = await site.made(workflow, site.asked(ADD))
        before = await workflow.run(plan_id)
        await Directing(equipped).revert(plan_id, to=Phase.STRATEGIZE)
        async with PlanLifecycleService(equipped).owned(plan_id) as ledger:
            await roll_back(equipped, ledger, ledger.state.checkpoints[-1])
        ended = await workflow.resume(plan_id)
    assert len(recorder.told) == 2  # nobody was asked again
    assert ended.changeset is not None
    assert before.changeset is not None
    assert ended.changeset.tree == before.changeset.tree
