"""Limits of a plan, raised while it runs and while it stands."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from engine.held import WAITING, release, said
from engine.worksite import ADD, Worksite
from patchyard.domain.booking import Move, SetAside
from patchyard.domain.budget import PlanLimits
from patchyard.domain.errors import Conflict, LimitReached
from patchyard.domain.events import Event, LimitsChanged, ToolCallRequested
from patchyard.domain.plan import Phase, State
from patchyard.domain.state import PlanState
from patchyard.domain.steering import RetryPlanned
from patchyard.engine import control, limiting, timekeeping
from patchyard.engine.ledger import Ledger
from patchyard.engine.limiting import set_limits
from patchyard.engine.timekeeping import Deadline
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

Job = asyncio.Future[PlanState]
LONGEST_S = 60.0


@asynccontextmanager
async def busy(site: Worksite, **limits: int) -> AsyncIterator[tuple[str, Job]]:
    """A plan in the middle of a call that waits for the file `go`."""
    called = asyncio.Event()

    def heard(event: Event) -> None:
        if isinstance(event, ToolCallRequested):
            called.set()

    async with site.open() as (equipment, _):
        workflow = Workflow(equipment, watching=Watching(on_event=heard))
        plan_id = await site.made(workflow, site.asked(WAITING, ADD, **limits))
        job = asyncio.ensure_future(workflow.run(plan_id))
        await called.wait()
        yield plan_id, job


async def test_a_limit_that_is_raised_while_the_plan_runs_counts_from_its_next_step(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiting, "POLLS", round(LONGEST_S / limiting.POLL_S))
    async with busy(site, steps=2) as (plan_id, job), site.open() as (other, _):
        raising = asyncio.ensure_future(
            set_limits(other, plan_id, lambda now: replace(now, steps=9))
        )
        await asyncio.wait_for(said(other, plan_id), LONGEST_S)
        release(site)
        assert await raising
        state = await job
        events = [event for _, _, event in await (await site.ledger(other, plan_id)).events()]
    assert (state.phase, state.state, state.limits.steps) == (Phase.EXECUTE, State.COMPLETE, 9)
    assert [event.word for event in events if isinstance(event, LimitsChanged)] == [1]


async def test_a_word_about_limits_that_nobody_took_in_counts_when_the_plan_goes_on(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, steps=1))
        with pytest.raises(LimitReached):
            await workflow.run(plan_id)
        store, clock = equipment.store, equipment.clock
        text = '{"steps": 9}'
        await control.say(store.journal, clock, plan_id, control.LIMIT, text=text)
        assert await set_limits(equipment, plan_id, lambda now: replace(now, tokens=10**6))
        state = await workflow.run(plan_id)
    assert (state.state, state.limits.steps, state.limits.tokens) == (State.COMPLETE, 9, 10**6)


async def slept(deadline: Deadline, *, limit: float) -> None:
    async with deadline.bounded():
        deadline.set(limit)
        await asyncio.sleep(LONGEST_S)


async def test_the_end_of_a_plans_time_moves_with_its_limit(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, seconds=0.05))
        ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
        deadline = Deadline(ledger)
        async with deadline.bounded():
            deadline.set(3600.0)
            await asyncio.sleep(0.2)
        with pytest.raises(LimitReached, match=r"time limit of 0\.01 s"):
            await slept(deadline, limit=0.01)
        async with deadline.bounded():
            deadline.set(None)
            await asyncio.sleep(0.1)


async def test_shared_time_is_set_aside_again_after_the_journal_was_in_trouble(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timekeeping, "SLICE_MS", 1)
    monkeypatch.setattr(timekeeping, "TROUBLED_S", 0.001)
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
        real, troubles = ledger.book, [Conflict("locked"), TypeError("a bug")]

        async def booked(*bookings: Move) -> None:
            slices = [each for each in bookings if isinstance(each, SetAside)]
            if slices and len(began) > 0:
                over = LimitReached("the day is over", limit_name="budget.day_time")
                raise troubles.pop() if troubles else over
            began.extend(slices)
            await real(*bookings)

        began: list[SetAside] = []
        monkeypatch.setattr(ledger, "book", booked)
        with pytest.raises(LimitReached, match="the day is over"):
            await slept(Deadline(ledger), limit=LONGEST_S)
    assert troubles == []


async def test_a_word_about_limits_that_is_damaged_is_passed_over(
    site: Worksite, caplog: pytest.LogCaptureFixture
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, steps=1))
        with pytest.raises(LimitReached):
            await workflow.run(plan_id)
        store, clock = equipment.store, equipment.clock
        for text in ('{"steps": "many"}', "[" * 9000, "{", "7", '{"steps": 9}'):
            await control.say(store.journal, clock, plan_id, control.LIMIT, text=text)
        state = await workflow.run(plan_id)
    assert (state.state, state.limits.steps) == (State.COMPLETE, 9)
    told = {each.getMessage().partition(":")[0] for each in caplog.records}
    assert told == {f"word {number} to plan {plan_id}" for number in (1, 2, 3, 4)}


async def test_who_waited_for_a_provider_is_told_of_its_failure_at_the_end_of_the_time(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, seconds=0.05))
        ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
        planned = RetryPlanned(
            code="model_failed", message="it burns", number=1, most=0, wait_s=9.0
        )
        await ledger.record(planned)
        with pytest.raises(LimitReached, match=r"s is reached, and what .* had failed: it burns"):
            await slept(Deadline(ledger), limit=0.01)
    assert ledger.state.limits == PlanLimits(seconds=0.05)
