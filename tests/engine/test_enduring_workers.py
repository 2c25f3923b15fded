"""What a worker does about a defect: its plans come to a stop, or are tried again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.test_dispatching import Bench, Broken
from engine.worksite import ADD, Worksite, call
from patchyard.assembly import open_equipment
from patchyard.domain.plan import State
from patchyard.engine import dispatcher as dispatching
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


async def test_a_failed_job_whose_plan_cannot_be_read_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_id = await bench.planned(ADD)
    hold, job = await bench.taken()

    async def unreadable(*_: Any) -> Any:
        raise TypeError("a bug")

    bench.opening = lambda: Broken(RuntimeError("no engine"))
    monkeypatch.setattr(dispatching, "load", unreadable)
    await bench.dispatcher.carry_out(hold, job)
    (left,) = await bench.left()
    assert (left.job_id, left.deaths) == (plan_id, 1)
    assert f"{plan_id}: TypeError: a bug (in unreadable)" in bench.told
