"""Large journals, written through the real store, for measures of what grows with them."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from patchyard.clients.clock import SystemClock
from patchyard.domain.events import Moved, Noted, PlanCreated, ToolCallSettled
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.state import PlanState
from patchyard.engine.ledger import Ledger, Store
from patchyard.engine.rows import body_of
from patchyard.stores.purse import SQLitePurse
from patchyard.stores.sqlite import SQLiteJournal

__all__ = ["command_ms", "many_plans", "noted", "one_large"]

QUEUED = Moved(phase=Phase.STRATEGIZE, state=State.QUEUED)
BODY_BYTES = 250_000


def many_plans(home: Path, count: int) -> None:
    """Make so many plans of twenty repositories."""
    asyncio.run(_many_plans(home, count))


async def _many_plans(home: Path, count: int) -> None:
    journal, store, clock = _opened(home)
    for number in range(count):
        await _plan(
            store, clock, f"task {number} {'of many ' * 9}", f"/srv/repository{number % 20}"
        )
    await journal.close()


async def noted(home: Path, events: int) -> tuple[SQLiteJournal, Store, str]:
    """Make one plan of so many events; whoever asked closes the journal."""
    journal, store, clock = _opened(home)
    ledger = await _plan(store, clock, "one", "/srv/repository")
    await ledger.record(*[Noted(text=f"{number} {'x' * 200}") for number in range(events - 2)])
    return journal, store, ledger.plan_id


def one_large(home: Path, size: int) -> str:
    """Make a journal of at least so many bytes; return the id of a plan in it."""
    return asyncio.run(_one_large(home, size))


async def _one_large(home: Path, size: int) -> str:
    journal, store, clock = _opened(home)
    ledger = await _plan(store, clock, "large", "/srv/repository")
    for number in range(size // BODY_BYTES + 1):
        body = body_of({"stdout": f"{number} {'y' * BODY_BYTES}"})
        await ledger.record(
            ToolCallSettled(call_id=str(number), success=True, message="", data=body)
        )
    await journal.close()
    return ledger.plan_id


def command_ms(home: Path, *words: str, repeats: int = 5) -> float:
    """The median time of one command of `agents`, its start and end included."""
    environ: Mapping[str, str] = {**os.environ, "PATCHYARD_HOME": str(home)}
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        command = [sys.executable, "-m", "patchyard", *words]
        subprocess.run(command, env=environ, check=True, capture_output=True)
        taken.append((time.perf_counter() - started) * 1000)
    return sorted(taken)[repeats // 2]


def _opened(home: Path) -> tuple[SQLiteJournal, Store, SystemClock]:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    journal = SQLiteJournal.open(home / "patchyard.db")
    store = Store(journal=journal, summaries=journal, purse=SQLitePurse(journal))
    return journal, store, SystemClock()


async def _plan(store: Store, clock: SystemClock, task: str, repository: str) -> Ledger:
    ledger = Ledger(store, clock, PlanState(plan_id=clock.new_id()))
    await ledger.record(PlanCreated(spec=PlanSpec(task=task, repository=repository)), QUEUED)
    return ledger
