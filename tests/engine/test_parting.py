"""A far side that does not answer while a plan is told to stop: the stop stays the reason."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from engine.told import heard, state_of
from engine.worksite import ADD, Worksite
from patchyard.contracts.environment import Environment
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment
from patchyard.domain.errors import EnvironmentBroken, LimitReached
from patchyard.domain.events import EnvironmentEnded, Noted
from patchyard.domain.plan import State
from patchyard.domain.steering import RetryPlanned
from patchyard.engine import parting
from patchyard.engine.equipment import Equipment
from patchyard.engine.owning import Cancelled
from patchyard.engine.parting import in_time
from patchyard.engine.stopping import stop
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

KIND = ExecutionEnvironment.PROCESS
GUARD_S = 120


class Silent:
    """An environment kind that refuses each connection, and whose environments end late."""

    def __init__(self, inner: Environment, ending: Callable[[], Any]) -> None:
        self.reached = asyncio.Event()
        self.is_silent = True
        self._inner = inner
        self._ending = ending

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def attach(self, _handle: EnvironmentHandle) -> Any:
        self.reached.set()
        await asyncio.Event().wait()

    async def end(self, handle: EnvironmentHandle) -> None:
        if self.is_silent:
            await self._ending()
        await self._inner.end(handle)


async def never() -> None:
    await asyncio.Event().wait()


async def broken() -> None:
    raise EnvironmentBroken("yonder fell silent")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parting, "PARTING_S", 0.2)
    monkeypatch.setattr(parting, "LEAST_S", 0.1)


def equipped(equipment: Equipment, site: Worksite, silent: Silent) -> tuple[Equipment, Workflow]:
    own = replace(equipment, environments={KIND: cast("Environment", silent)})
    return own, Workflow(own, watching=Watching(on_event=site.heard.append))


def stays(site: Worksite) -> list[str]:
    return [each.text for each in heard(site, Noted) if "is left to a later pass" in each.text]


@pytest.mark.parametrize("ending", [never, broken])
async def test_the_time_limit_is_the_reason_whatever_the_end_of_a_place_does(
    site: Worksite, monkeypatch: pytest.MonkeyPatch, ending: Callable[[], Any]
) -> None:
    async with site.open() as (equipment, _):
        silent = Silent(equipment.environment(KIND), ending)
        own, workflow = equipped(equipment, site, silent)
        plan_id = await site.made(workflow, site.asked(ADD, seconds=400))
        async with asyncio.timeout(None) as guard:
            working = asyncio.create_task(workflow.run(plan_id))
            await silent.reached.wait()
            loop = asyncio.get_running_loop()
            now = loop.time
            monkeypatch.setattr(loop, "time", lambda: now() + 400)  # it hangs for that long
            guard.reschedule(loop.time() + GUARD_S)
            with pytest.raises(LimitReached, match="time limit of 400 s"):
                await working
        ledger = await site.ledger(equipment, plan_id)
        assert ledger.state.state == State.CONSTRAINED
        assert ledger.state.failure is not None
        assert ledger.state.failure.code == "limit"
        assert heard(site, RetryPlanned) == []
        (environment_id,) = ledger.state.environments  # a later pass knows of it
        (said,) = stays(site)
        assert environment_id in said
        silent.is_silent = False
        await stop(own, ledger, "cancelled")
        assert ledger.state.environments == {}


@pytest.mark.parametrize("ending", [never, broken])
async def test_a_signal_ends_the_work_whatever_the_end_of_a_place_does(
    site: Worksite, ending: Callable[[], Any]
) -> None:
    async with site.open() as (equipment, _):
        silent = Silent(equipment.environment(KIND), ending)
        _, workflow = equipped(equipment, site, silent)
        plan_id = await site.made(workflow, site.asked(ADD))
        async with asyncio.timeout(GUARD_S):
            working = asyncio.create_task(workflow.run(plan_id))
            await silent.reached.wait()
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
        state = await state_of(site, equipment, plan_id)
    assert (state.state, state.failure) == (State.CANCELLED, None)
    assert len(state.environments) == 1
    assert stays(site)
    assert (heard(site, RetryPlanned), heard(site, EnvironmentEnded)) == ([], [])


async def test_a_cancel_from_elsewhere_ends_the_work_whatever_the_end_of_a_place_does(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, _):
        silent = Silent(equipment.environment(KIND), never)
        own, workflow = equipped(equipment, site, silent)
        plan_id = await site.made(workflow, site.asked(ADD))
        async with asyncio.timeout(GUARD_S):
            working = asyncio.create_task(workflow.run(plan_id))
            await silent.reached.wait()
            cancelling = asyncio.create_task(Workflow(own).cancel(plan_id))
            with pytest.raises(Cancelled):
                await working
            silent.is_silent = False
            await cancelling
        state = await state_of(site, equipment, plan_id)
    assert (state.state, state.environments) == (State.CANCELLED, {})
    assert heard(site, RetryPlanned) == []


async def test_a_far_side_that_fails_in_time_is_awaited_and_the_cancellation_stays() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def failing() -> None:
        begun.set()
        await may_end.wait()
        raise EnvironmentBroken("it is away")

    waiting = asyncio.create_task(in_time(failing()))
    await begun.wait()
    waiting.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError) as cut:
        await waiting
    assert isinstance(cut.value.__cause__, EnvironmentBroken)
