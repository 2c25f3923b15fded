"""What a worker does about a defect as it leaves: its plans come to a stop, and it ends."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.test_dispatching import Bench
from engine.worksite import Worksite, call
from patchyard.assembly import open_equipment
from patchyard.domain.plan import State
from patchyard.engine.ledger import load
from patchyard.engine.worker import Terms, Worker

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    site = Worksite.make(tmp_path, {"a.txt": "one\n"})
    async with open_equipment(site.environ) as equipment:
        yield Bench(site=site, equipment=equipment)
    await site.clear()


@pytest.mark.parametrize("is_draining", [True, False])
async def test_a_defect_as_a_worker_leaves_keeps_none_of_its_plans_at_work(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, is_draining: bool
) -> None:
    plan_id = await bench.planned(call("execute_command", command="sleep 60", timeout_s=90))
    terms = Terms(name="w", concurrency=1, drain_s=0.1)
    worker = Worker(bench.equipment, bench.dispatcher, terms, told=bench.told.append)
    leave = bench.equipment.crew.leave

    async def defective(**options: Any) -> None:
        if options.get("is_draining", False) == is_draining:
            raise TypeError("a bug")
        await leave(**options)

    monkeypatch.setattr(bench.equipment.crew, "leave", defective)
    working = asyncio.create_task(worker.run())
    async with asyncio.timeout(120):
        state = State.QUEUED
        while state != State.PROCESSING:
            await asyncio.sleep(0.02)
            state = (await load(bench.equipment.store.journal, plan_id))[0].state
        worker.drain()
        await working
    assert [said for said in bench.told if "bug" in said] == [
        "leaving: TypeError: a bug (in defective)"
    ]
    assert f"{plan_id}: left for the next worker" in bench.told
