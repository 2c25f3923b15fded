"""A bit flipped in each page of a small journal: it is named, or nothing that is read differs.

`PATCHYARD_SEED` sets which bit; a soak takes every page several times.
"""

import os
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients.clock import SystemClock
from patchyard.domain.errors import PatchyardError
from patchyard.domain.events import Moved, Noted, PlanCreated, TurnRequested, TurnTaken
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.state import PlanState
from patchyard.engine.inspecting import differs, is_listed
from patchyard.engine.ledger import Ledger, Store
from patchyard.engine.rows import body_of
from patchyard.engine.verifying import verify
from patchyard.stores.inspection import SQLiteInspection
from patchyard.stores.purse import SQLitePurse
from patchyard.stores.sqlite import SQLiteJournal
from timing import IS_SOAK

pytestmark = pytest.mark.anyio

SEED = int(os.environ.get("PATCHYARD_SEED", "20261124"))
PAGE = 4096
NOTES = 40
TIMES = 40 if IS_SOAK else 2  # that each page is flipped
READ = ("events", "bodies", "summaries")  # the others hold what is of no plan, or of no event


def store_of(journal: SQLiteJournal) -> Store:
    return Store(journal=journal, summaries=journal, purse=SQLitePurse(journal))


async def written(path: Path) -> str:
    """Write a plan of some pages; return its id."""
    journal = SQLiteJournal.open(path)
    clock = SystemClock()
    ledger = Ledger(store_of(journal), clock, PlanState(plan_id=clock.new_id()))
    queued = Moved(phase=Phase.STRATEGIZE, state=State.QUEUED)
    await ledger.record(PlanCreated(spec=PlanSpec(task="mend", repository="/srv/repo")), queued)
    await ledger.record(Moved(phase=Phase.STRATEGIZE, state=State.PROCESSING))
    for number in range(NOTES):
        await ledger.record(Noted(text=f"{number} {'x' * 300}"))
    await ledger.record(TurnRequested(turn=1))
    await ledger.record(TurnTaken(turn=1, note="", body=body_of("long " * 5000)))
    await journal.close()
    return ledger.plan_id


def rows(path: Path) -> dict[str, list[Any]]:
    connection = sqlite3.connect(path)
    try:
        selects = {name: f"SELECT * FROM {name}" for name in READ}  # noqa: S608 - our tables
        return {name: connection.execute(select).fetchall() for name, select in selects.items()}
    finally:
        connection.close()


async def said(path: Path, plan_id: str) -> list[str]:
    """All that opening, `doctor` and `plan verify` say of a journal."""
    journal = None
    try:
        journal = SQLiteJournal.open(path)
        inspection = SQLiteInspection(journal)
        found = [*await inspection.structure(), *await inspection.streams()]
        listed = dict(await journal.summaries())
        row = listed.get(plan_id, {})
        found += [f"{each} is not of this journal" for each in listed if each != plan_id]
        found += (await verify(journal, plan_id)).problems
        ledger = await Ledger.open(store_of(journal), SystemClock(), plan_id)
        if not is_listed(row) or await differs(row, ledger):
            found.append("its line in the list")
    except PatchyardError as error:
        return [error.message]
    finally:
        if journal is not None:
            await journal.close()
    return found


async def test_a_bit_in_any_page_is_named_or_changes_nothing_that_is_read(tmp_path: Path) -> None:
    source, path = tmp_path / "source.db", tmp_path / "patchyard.db"
    plan_id = await written(source)
    source.with_suffix(".heads").rename(path.with_suffix(".heads"))
    data, intact = contents(source), rows(source)
    chance = random.Random(SEED)
    silent, told = [], 0
    for begin in list(range(0, len(data), PAGE)) * TIMES:
        offset, bit = begin + chance.randrange(PAGE), 1 << chance.randrange(8)
        lay(path, data, offset, bit)
        found = await said(path, plan_id)
        told += bool(found)
        if not found and rows(path) != intact:
            silent.append((offset, bit))
    assert silent == []
    assert told


def contents(path: Path) -> bytes:
    return path.read_bytes()


def lay(path: Path, data: bytes, offset: int, bit: int) -> None:
    """Write a copy of a database with one bit flipped; no log of before is left beside it."""
    for suffix in ("-wal", "-shm"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
    flipped = bytearray(data)
    flipped[offset] ^= bit
    path.write_bytes(flipped)
