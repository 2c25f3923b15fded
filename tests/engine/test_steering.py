"""Plans that are paused and guided by others: nothing is lost, nothing is told twice."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.held import WAITING, release, said
from engine.told import ENDING, Recorder, heard, state_of, until, with_actor, writing
from engine.worksite import ADD, Worksite
from patchyard.contracts.actor import Answered, Turn
from patchyard.domain.errors import GuardRefused, PlanPaused, UsageError
from patchyard.domain.events import LimitsChanged, Noted, ToolCallRequested, ToolCallSettled
from patchyard.domain.plan import Phase, State
from patchyard.domain.steering import Guided, PauseEnded
from patchyard.engine import control
from patchyard.engine.directing import Directing
from patchyard.engine.lifecycle import PlanLifecycleService, begin
from patchyard.engine.report import plan_data
from patchyard.engine.workflow import Workflow
from patchyard.intake import spec_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


async def test_a_pause_lets_the_present_call_end_and_resume_goes_on(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(WAITING, ADD))
        working = asyncio.create_task(workflow.run(plan_id))
        await until(site, ToolCallRequested)
        pausing = asyncio.create_task(Directing(equipment).pause(plan_id))
        await said(equipment, plan_id)
        release(site)
        paused = await pausing
        with pytest.raises(PlanPaused):
            await working
        assert paused.steered.paused is not None
        assert [each.success for each in heard(site, ToolCallSettled)] == [True]
        data = await plan_data(await site.ledger(equipment, plan_id))
        assert "paused" in data["waiting"]["for"]
        with pytest.raises(PlanPaused):  # a worker leaves it alone
            await workflow.run(plan_id)
        ended = await workflow.resume(plan_id)
    assert (ended.phase, ended.state) == (Phase.EXECUTE, State.COMPLETE)
    assert ended.steered.paused is None
    assert len(heard(site, ToolCallRequested)) == 2


async def test_a_pause_of_a_plan_that_nobody_works_on_is_kept(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        directing = Directing(equipment)
        assert (await directing.pause(plan_id)).steered.paused is not None
        before = (await directing.pause(plan_id)).version  # once more is harmless
        with pytest.raises(PlanPaused):
            await workflow.run(plan_id)
        assert (await state_of(site, equipment, plan_id)).version == before
        ended = await workflow.resume(plan_id)
        assert ended.state == State.COMPLETE
        with pytest.raises(GuardRefused, match="its work is done"):
            await directing.pause(plan_id)


async def test_a_worker_ends_no_pause_whatever_its_errand(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        await workflow.strategize(plan_id)
        await Directing(equipment).pause(plan_id)
        worker = Workflow(equipment, leaving=asyncio.Event())
        for errand in (worker.strategize, worker.execute, worker.run):
            with pytest.raises(PlanPaused):
                await errand(plan_id)
        assert (await workflow.execute(plan_id)).state == State.COMPLETE


async def test_the_time_of_a_pause_does_not_count(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        ledger = await site.ledger(equipment, plan_id)
        await workflow.strategize(plan_id)
        spent = (await state_of(site, equipment, plan_id)).spent.seconds
        await Directing(equipment).pause(plan_id)
        await asyncio.sleep(0.3)
        ledger = await site.ledger(equipment, plan_id)
        await Directing(equipment).prompt(plan_id, "on you go")
        assert (await site.ledger(equipment, plan_id)).state.spent.seconds == spent
        assert ledger.state.spent.seconds == spent


async def test_the_time_until_a_pause_a_question_or_a_crash_is_ended_does_not_count(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
            await begin(ledger, Phase.STRATEGIZE)
            spent = ledger.state.spent.seconds
        worked = 0.0
        for word in (PauseEnded(), LimitsChanged(limits=ledger.state.limits), Noted(text="x")):
            await asyncio.sleep(0.3)
            begun = time.monotonic()
            async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
                await ledger.record(word)
                await asyncio.sleep(0.05)
                await ledger.record(Noted(text="worked on"))
            worked += time.monotonic() - begun
        found = ledger.state.spent.seconds - spent
    assert 0.1 < found < worked + 0.3  # of the 0.9 s in between


async def test_guidance_is_told_once_with_the_next_turn_and_again_after_a_restart(
    site: Worksite,
) -> None:
    recorder = Recorder([writing(1), ENDING, writing(2), ENDING])
    async with site.open() as (equipment, _):
        equipped = with_actor(equipment, recorder)
        workflow = Workflow(equipped)
        plan_id = await site.made(workflow, site.asked(ADD))
        await workflow.strategize(plan_id)
        directing = Directing(equipped)
        await directing.prompt(plan_id, "use tabs")
        await directing.prompt(plan_id, "and no colours")
        await workflow.resume(plan_id)
        first = recorder.told[0][1]
        assert first.index("use tabs") < first.index("no colours")
        assert [note for _, note in recorder.told[1:]] == [""]
        reopened = await directing.correct(plan_id, "append", "a second file")
        assert (reopened.phase, reopened.state) == (Phase.EXECUTE, State.QUEUED)
        ended = await workflow.resume(plan_id)
    assert recorder.restored[0] == first  # word for word what was said before
    assert "a second file" in recorder.told[2][1]
    assert ended.steered.guidance == ()
    assert ended.rounds == 0  # guidance is no failed proof
    assert ended.changeset is not None
    assert ended.changeset.files == 2


async def test_guidance_said_while_the_owner_was_dead_is_taken_in_once(site: Worksite) -> None:
    recorder = Recorder([writing(1), ENDING])
    async with site.open() as (equipment, _):
        equipped = with_actor(equipment, recorder)
        workflow = Workflow(equipped)
        plan_id = await site.made(workflow, site.asked(ADD))
        journal, clock = equipped.store.journal, equipped.clock
        said = {"text": "use tabs", "source": "prompt"}
        await workflow.strategize(plan_id)
        await control.say(journal, clock, plan_id, control.PROMPT, **said)  # killed after that
        await workflow.execute(plan_id)
        events = await (await site.ledger(equipped, plan_id)).events()
    assert len([event for _, _, event in events if isinstance(event, Guided)]) == 1
    assert [("use tabs" in note) for _, note in recorder.told] == [True, False]


async def test_guidance_that_comes_with_the_last_turn_is_heard_before_the_proof(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder([ENDING, writing(1), ENDING])
    async with site.open() as (equipment, _):
        equipped = with_actor(equipment, recorder)
        plan_id = await site.made(Workflow(equipped), site.asked(ADD))
        journal, clock = equipped.store.journal, equipped.clock
        thinking = recorder.next

        async def interrupted(answers: Sequence[Answered], *, note: str = "") -> Turn:
            turn = await thinking(answers, note=note)
            if len(recorder.told) == 1:
                said = {"text": "one more", "source": "prompt"}
                await control.say(journal, clock, plan_id, control.PROMPT, **said)
            return turn

        monkeypatch.setattr(recorder, "next", interrupted)
        ended = await Workflow(equipped).run(plan_id)
    assert [("one more" in note) for _, note in recorder.told] == [False, True, False]
    assert ended.changeset is not None
    assert ended.changeset.files == 1


async def test_empty_long_or_useless_guidance_is_refused(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        directing = Directing(equipment)
        plan_id = await site.made(workflow, site.asked(ADD))
        for text in (" ", "x" * 8001):
            with pytest.raises(UsageError, match="the guidance"):
                await directing.prompt(plan_id, text)
        spec = spec_of(site.asked(ADD), site.environ)
        recipe = await workflow.create(replace(spec, agent="recipe"))
        with pytest.raises(GuardRefused, match="takes no guidance"):
            await directing.prompt(recipe, "faster")


async def test_guidance_for_work_that_was_done_meanwhile_is_told_all_the_same(
    site: Worksite,
) -> None:
    recorder = Recorder([writing(1), ENDING, writing(2), ENDING])
    async with site.open() as (equipment, _):
        equipped = with_actor(equipment, recorder)
        workflow = Workflow(equipped)
        plan_id = await site.made(workflow, site.asked(ADD))
        await workflow.run(plan_id)
        journal, clock = equipped.store.journal, equipped.clock
        said = {"text": "one more", "source": "prompt"}
        await control.say(journal, clock, plan_id, control.PROMPT, **said)  # killed after that
        ended = await workflow.resume(plan_id)
    assert "one more" in recorder.told[2][1]
    assert ended.state == State.COMPLETE
    assert ended.changeset is not None
    assert ended.changeset.files == 2
