"""A plan and the budgets it shares: what it may not pass, what it waits for, what it is told."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, call
from patchyard.domain.booking import Account, Booking, SetAside
from patchyard.domain.budget import Amount, Ask, PlanLimits
from patchyard.domain.errors import LimitReached
from patchyard.domain.events import Event, LimitsChanged, Moved, TurnRequested
from patchyard.domain.plan import Phase, State
from patchyard.domain.spending import Reserved, RoomAwaited
from patchyard.engine import budgeting
from patchyard.engine.budgeting import PlanMeter
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService, failure_of
from patchyard.engine.report import plan_data
from patchyard.engine.steering import Steering
from patchyard.engine.workflow import Workflow
from patchyard.intake import spec_of

pytestmark = pytest.mark.anyio

ASK = Ask(
    input_tokens=1000,
    output_tokens=4000,
    usd_per_million_input=1.0,
    usd_per_million_output=10.0,
)
UNPRICED = replace(ASK, usd_per_million_input=None, usd_per_million_output=None)


@asynccontextmanager
async def opened(
    site: Worksite, monkeypatch: pytest.MonkeyPatch, **budget: Any
) -> AsyncIterator[tuple[Equipment, Workflow]]:
    monkeypatch.setenv("PATCHYARD_BUDGET", json.dumps(budget))
    async with site.open() as found:
        yield found


def _is_waiting(event: Event) -> bool:
    return isinstance(event, RoomAwaited)


@asynccontextmanager
async def plan(
    site: Worksite, equipment: Equipment, limits: PlanLimits | None = None
) -> AsyncIterator[tuple[Ledger, PlanMeter]]:
    """A plan that this process owns and works on, and who pays for it."""
    lifecycle = PlanLifecycleService(equipment)
    spec = spec_of(site.asked(ADD), site.environ)
    made = await lifecycle.create(replace(spec, limits=limits or PlanLimits()))
    async with lifecycle.owned(made.plan_id) as ledger:
        await ledger.record(Moved(phase=Phase.STRATEGIZE, state=State.PROCESSING))
        yield ledger, PlanMeter(equipment, ledger, Steering(equipment, ledger))


@pytest.mark.parametrize(
    ("limits", "ask", "granted"),
    [
        (PlanLimits(), ASK, 4000),
        (PlanLimits(tokens=3000), ASK, 2000),
        (PlanLimits(usd=0.011), ASK, 1000),
        (PlanLimits(usd=None), UNPRICED, 4000),
    ],
)
async def test_an_answer_may_be_as_long_as_the_plans_own_limits_allow(
    site: Worksite, limits: PlanLimits, ask: Ask, granted: int
) -> None:
    async with site.open() as (equipment, _), plan(site, equipment, limits) as (ledger, meter):
        meter.begin(TurnRequested(turn=1))
        assert await meter.reserve(ask) == granted
        assert ledger.state.held is not None
        assert ledger.state.asked is not None


@pytest.mark.parametrize(
    ("limits", "ask", "said"),
    [
        (PlanLimits(tokens=1100), ASK, "1100 tokens"),
        (PlanLimits(usd=0.002), ASK, "0.002 USD"),
        (PlanLimits(tokens=None), replace(UNPRICED, input_tokens=2_000_000), "2000000 tokens"),
    ],
)
async def test_what_does_not_fit_the_plans_own_limits_is_not_recorded(
    site: Worksite, limits: PlanLimits, ask: Ask, said: str
) -> None:
    async with site.open() as (equipment, _), plan(site, equipment, limits) as (ledger, meter):
        before = ledger.state.version
        meter.begin(TurnRequested(turn=1))
        with pytest.raises(LimitReached, match=said) as caught:
            await meter.reserve(ask)
        assert caught.value.details["limit_name"] == said.rsplit(maxsplit=1)[-1].lower()
        assert ledger.state.version == before
        option = "--budget-usd +5" if "USD" in said else "--max-tokens N"
        assert f"`agents plan limit {ledger.plan_id} {option}` raises it" in caught.value.hint


async def test_a_request_that_is_lost_counts_as_all_that_it_could_cost_once(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, _), plan(site, equipment) as (ledger, meter):
        await meter.reserve(ASK)
        await meter.reserve(ASK)
        assert ledger.state.spent.tokens == 5000
        meter.release("refused")
        await meter.reserve(ASK)
        assert ledger.state.spent.tokens == 5000
        tally = (await equipment.store.purse.tallies([Account()]))[Account()]
    assert (tally.spent.tokens, tally.reserved.tokens) == (5000, 5000)


async def test_a_shared_budget_shortens_the_answer_before_it_refuses(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        opened(site, monkeypatch, day_tokens=7000) as (equipment, _),
        plan(site, equipment) as (ledger, meter),
    ):
        assert await meter.reserve(ASK) == 4000
        assert await meter.reserve(ASK) == 1000
        with pytest.raises(LimitReached) as caught:
            await meter.reserve(ASK)
        assert caught.value.details["setting"] == "budget.day_tokens"
        assert ledger.state.spent.tokens == 5000


async def test_a_plan_waits_for_others_that_have_the_rest_set_aside_and_says_so(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgeting, "POLL_S", 0.01)
    async with (
        opened(site, monkeypatch, total_usd=0.05) as (equipment, _),
        plan(site, equipment) as (first, paying),
        plan(site, equipment) as (second, waiting),
    ):
        await paying.reserve(ASK)
        told = asyncio.Event()
        second.listeners.append(lambda event: told.set() if _is_waiting(event) else None)
        job = asyncio.ensure_future(waiting.reserve(ASK))
        await told.wait()
        shown = (await plan_data(second))["waiting"]
        paying.release("refused")
        await first.record(Moved(phase=Phase.STRATEGIZE, state=State.CANCELLED))
        assert await job == 4000
        assert second.state.awaits_room == ""
    assert "budget.total_usd" in shown["for"]


async def test_plans_whose_requests_were_lost_do_not_wait_for_each_other(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgeting, "POLL_S", 0.01)
    async with (
        opened(site, monkeypatch, total_tokens=10_000) as (equipment, _),
        plan(site, equipment) as one,
        plan(site, equipment) as other,
    ):
        both = asyncio.Barrier(2)

        async def refused(ledger: Ledger, meter: PlanMeter) -> None:
            await meter.reserve(ASK)
            await both.wait()
            with pytest.raises(LimitReached) as caught:
                await meter.reserve(ASK)
            await ledger.record(failure_of(Phase.STRATEGIZE, caught.value))

        await asyncio.gather(refused(*one), refused(*other))


async def test_what_a_dead_owner_had_set_aside_is_waited_for_by_nobody(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(site, monkeypatch, total_tokens=9_600) as (equipment, _):
        async with plan(site, equipment) as (left, paying):
            await paying.reserve(ASK)
        async with plan(site, equipment) as (_, meter):
            assert await meter.reserve(ASK) == 3600
            tally = (await equipment.store.purse.tallies([Account()]))[Account()]
            assert (tally.spent.tokens, tally.reserved.tokens) == (5000, 4600)
            taken_up = await site.ledger(equipment, left.plan_id)
            await taken_up.record(TurnRequested(turn=1))
            tally = (await equipment.store.purse.tallies([Account()]))[Account()]
    assert (tally.spent.tokens, tally.spent.steps) == (5000, 1)
    assert taken_up.state.spent.tokens == 5000


@pytest.mark.parametrize(
    ("budget", "setting"),
    [({"total_steps": 3}, "budget.total_steps"), ({"day_calls": 1}, "budget.day_calls")],
)
async def test_a_shared_budget_of_steps_or_calls_ends_a_plan_and_keeps_what_it_has(
    site: Worksite, monkeypatch: pytest.MonkeyPatch, budget: dict[str, int], setting: str
) -> None:
    more = call("write_file", path="more.txt", content="x\n")
    async with opened(site, monkeypatch, **budget) as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, more, more))
        with pytest.raises(LimitReached) as caught:
            await workflow.run(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        data = await plan_data(ledger)
        assert caught.value.details["setting"] == setting
        assert (ledger.state.state, data["changed"]) == (State.CONSTRAINED, True)
        scopes = {row["scope"]: row for row in data["cost"]["budgets"]}
        prefix, _, key = setting.removeprefix("budget.").rpartition("_")
        assert scopes[prefix]["spent"][key] == scopes[prefix]["limits"][key]
        events = [event for _, _, event in await ledger.events()]
        assert sum(isinstance(event, Reserved) for event in events) >= 1
        assert not any(isinstance(event, RoomAwaited) for event in events)
    async with opened(site, monkeypatch) as (_, workflow):
        resumed = await workflow.run(plan_id)
    assert (resumed.phase, resumed.state) == (Phase.EXECUTE, State.COMPLETE)


async def test_the_time_that_plans_share_ends_them_within_its_limit(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = call("execute_command", command="sleep 30", timeout_s=60)
    async with opened(site, monkeypatch, total_time=3) as (equipment, workflow):
        plans = [await site.made(workflow, site.asked(ADD, long)) for _ in range(2)]
        results = await asyncio.gather(
            *(workflow.run(plan_id) for plan_id in plans), return_exceptions=True
        )
        purse = equipment.store.purse
        tally = (await purse.tallies([Account()]))[Account()]
        states = [(await site.ledger(equipment, plan_id)).state for plan_id in plans]
        assert await purse.holders() == {}
    assert [getattr(result, "code", "") for result in results] == ["limit", "limit"]
    assert {state.state for state in states} == {State.CONSTRAINED}
    assert 0 < tally.spent.ms <= 3000


async def test_the_slice_of_time_that_a_killed_owner_had_set_aside_counts_as_passed(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        purse = equipment.store.purse
        kept = SetAside(number=-7, amount=Amount(ms=20_000))
        await purse.book(plan_id, Booking(project="", day="2026-11-21", moves=(kept,)))
        await workflow.run(plan_id)
        tally = (await purse.tallies([Account()]))[Account()]
        assert await purse.holders() == {}
    assert 20_000 < tally.spent.ms < 80_000


async def test_a_plan_has_a_limit_of_calls_of_its_own(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, ADD, ADD))
        ledger = await site.ledger(equipment, plan_id)
        await ledger.record(LimitsChanged(limits=PlanLimits(calls=1)))
        with pytest.raises(LimitReached, match="1 call of a tool") as caught:
            await workflow.run(plan_id)
        assert caught.value.details["limit_name"] == "calls"
        assert f"`agents plan limit {plan_id} --max-calls +100` raises it" in caught.value.hint
        assert (await site.ledger(equipment, plan_id)).state.tool_calls == 1
