"""A plan that is stopped: by time, by a cancel, by an owner, by the loss of its environment."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from engine.worksite import ADD, Worksite, call
from patchyard.contracts.environment import Environment
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
)
from patchyard.domain.errors import (
    Conflict,
    EnvironmentBroken,
    LimitReached,
)
from patchyard.domain.events import Noted, ToolCallSettled
from patchyard.domain.plan import Phase, State
from patchyard.engine import owning
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.owning import Cancelled
from patchyard.engine.places import started
from patchyard.engine.stopping import stop
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


def settled(site: Worksite) -> list[ToolCallSettled]:
    return [event for event in site.heard if isinstance(event, ToolCallSettled)]


async def test_the_time_limit_ends_a_command_that_hangs(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = call("execute_command", command="touch started; sleep 600", timeout_s=500)
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(hang, seconds=400))
        working = asyncio.create_task(workflow.run(plan_id))
        async with asyncio.timeout(120):
            await _with_open_call(equipment, site, plan_id, file="started")
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 400)  # it hangs for that long
        with pytest.raises(LimitReached, match="time limit of 400 s"):
            await working
        state = (await site.ledger(equipment, plan_id)).state
    assert (state.open_calls, state.environments) == ({}, {})
    assert settled(site)[-1].error == "CANCELLED"


async def test_cancel_from_elsewhere_kills_the_tree_and_the_plan_can_go_on(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owning, "CANCEL_POLLS", 2000)  # a busy machine takes its time
    hang = call("execute_command", command="touch started; sleep 600 & sleep 600", timeout_s=500)
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(hang, ADD))
        working = asyncio.create_task(workflow.run(plan_id))
        async with asyncio.timeout(120):
            await _with_open_call(equipment, site, plan_id, file="started")
            await Workflow(equipment).cancel(plan_id)
            with pytest.raises(Cancelled):
                await working
        state = (await site.ledger(equipment, plan_id)).state
        assert (state.state, state.environments) == (State.CANCELLED, {})
        resumed = await workflow.run(plan_id)
    assert (resumed.phase, resumed.state) == (Phase.EXECUTE, State.COMPLETE)
    assert [event.error for event in settled(site)] == ["CANCELLED", None]


class Staying:
    """An environment kind whose places do not end while `stays`."""

    def __init__(self, inner: Environment) -> None:
        self.stays = True
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def end(self, handle: EnvironmentHandle) -> None:
        if self.stays:
            raise EnvironmentBroken("it waits inside the kernel")
        await self._inner.end(handle)


async def test_what_does_not_end_on_cancel_stays_known_and_is_ended_the_next_time(
    site: Worksite, tmp_path: Path
) -> None:
    kind = ExecutionEnvironment.PROCESS
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        ledger = await site.ledger(equipment, plan_id)
        workspace = Mount(source=str(tmp_path), target="/srv/work")
        spec = EnvironmentSpec(plan_id=plan_id, purpose="execute", workspace=workspace)
        handle = await started(equipment, ledger, equipment.environment(kind), spec)
        staying = Staying(equipment.environment(kind))
        stubborn = replace(equipment, environments={kind: cast("Environment", staying)})
        await stop(stubborn, ledger, "cancelled")
        assert ledger.state.state == State.CANCELLED
        assert list(ledger.state.environments) == [handle.environment_id]
        noted = [event.text for _, _, event in await ledger.events() if isinstance(event, Noted)]
        assert noted == ["it waits inside the kernel"]
        staying.stays = False
        await stop(stubborn, ledger, "cancelled")
        assert ledger.state.environments == {}


async def test_one_plan_has_one_owner(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        async with equipment.claims.claim(plan_id):
            with pytest.raises(Conflict, match="another process"):
                await workflow.run(plan_id)


async def _with_open_call(
    equipment: Equipment, site: Worksite, plan_id: str, *, file: str
) -> Ledger:
    while True:
        ledger = await site.ledger(equipment, plan_id)
        if ledger.state.open_calls:
            root = Path(str((ledger.state.workspace or {})["root"]))
            if (root / file).exists():
                return ledger
        await asyncio.sleep(0.02)
