"""What grows with the journal, and what must not: lists, starts, recovery, long plans."""

import asyncio
import functools
import shutil
import tempfile
from pathlib import Path

from benchmarks.journals import command_ms, many_plans, noted, one_large
from benchmarks.long_plan import measures
from benchmarks.measuring import measured, median_ms_async
from patchyard.clients.clock import SystemClock
from patchyard.engine.ledger import Ledger

GIGABYTE = 10**9
STEPS = 5000


@measured("listing 10,000 plans, the whole command", target=300)
def track_plans_listed() -> float:
    with tempfile.TemporaryDirectory(prefix="patchyard-bench-") as name:
        many_plans(Path(name), 10_000)
        return command_ms(Path(name), "plan", "list", "--all")


async def _recovered_ms() -> float:
    with tempfile.TemporaryDirectory(prefix="patchyard-bench-") as name:
        journal, store, plan_id = await noted(Path(name), 1000)
        clock = SystemClock()
        try:
            return await median_ms_async(lambda: Ledger.open(store, clock, plan_id), repeats=10)
        finally:
            await journal.close()


@measured("recovery of 1,000 events", target=20)
def track_events_recovered() -> float:
    return asyncio.run(_recovered_ms())


@measured("starting on a journal of 1 GB: plan status", target=1000)
def track_large_journal() -> float:
    with tempfile.TemporaryDirectory(prefix="patchyard-bench-") as name:
        if shutil.disk_usage(name).free < 4 * GIGABYTE:
            raise NotImplementedError("less than 4 GB are free")
        plan_id = one_large(Path(name), GIGABYTE)
        return command_ms(Path(name), "plan", "status", plan_id)


@functools.cache
def _long_plan() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="patchyard-bench-") as name:
        return measures(Path(name), STEPS)


@measured("plan of 5,000 steps: last 100 against first 100", target=1.2, unit="times")
def track_long_plan_slowdown() -> float:
    return _long_plan()["ratio"]


@measured("plan of 5,000 steps: memory grown in its second half", target=5, unit="MB")
def track_long_plan_memory() -> float:
    return _long_plan()["grown_mb"]


@measured("resume of a plan of 5,000 steps to its next request", target=1000)
def track_long_plan_resumed() -> float:
    return _long_plan()["resume_ms"]
