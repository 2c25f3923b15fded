"""Looks at the whole journal while another process begins, goes on with or removes a plan."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from patchyard.contracts.journal import NewEvent
from patchyard.domain.ids import ulid
from patchyard.domain.retention import Removed
from patchyard.stores.inspection import SQLiteInspection
from patchyard.stores.pruning import SQLitePruning
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio

PLAN, LATER = ulid(1_700_000_000_000, 5), ulid(1_700_000_000_000, 6)
EVENT = NewEvent(type="Noted", schema=1, at=1.0, body={})
LOOKED = ("SELECT stream FROM plans", "SELECT plan_id FROM removed", "SELECT hash FROM events")
"""Parts of the statements of a look, each of which another process may come before."""


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SQLiteJournal]:
    opened = SQLiteJournal.open(tmp_path / "patchyard.db")
    await opened.append(PLAN, 0, [EVENT], summary={"plan": 1})
    yield opened
    await opened.close()


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[SQLiteJournal]:
    opened = SQLiteJournal.open(tmp_path / "patchyard.db")
    yield opened
    await opened.close()


def at_once(work: Coroutine[Any, Any, object]) -> None:
    """Run what waits for nothing to its end."""
    with pytest.raises(StopIteration):
        work.send(None)


async def before(
    journal: SQLiteJournal, part: str, work: Callable[[], Coroutine[Any, Any, object]]
) -> list[str]:
    """Let `work` run once before the first statement with that part; return where it did."""
    ran: list[str] = []

    def traced(statement: str) -> None:
        if part in statement and not ran:
            at_once(work())
            ran.append(part)

    await journal.look(lambda connection: connection.set_trace_callback(traced))
    return ran


async def test_a_plan_that_is_begun_during_a_look_at_the_list_has_no_damaged_line(
    journal: SQLiteJournal, other: SQLiteJournal
) -> None:
    ran = await before(
        journal, LOOKED[0], lambda: other.append(LATER, 0, [EVENT], summary={"plan": 2})
    )
    assert await journal.summaries() == [(PLAN, {"plan": 1})]
    assert ran
    assert await journal.summaries() == [(LATER, {"plan": 2}), (PLAN, {"plan": 1})]


@pytest.mark.parametrize("part", LOOKED[1:])
async def test_a_plan_that_is_removed_during_an_inspection_is_not_called_lost(
    journal: SQLiteJournal, other: SQLiteJournal, part: str
) -> None:
    removed = Removed(plan_id=PLAN, events=1, head="", at=1.0)
    ran = await before(journal, part, lambda: SQLitePruning(other).forget(removed))
    assert await SQLiteInspection(journal).streams() == []
    assert ran
    assert await journal.summaries() == []


@pytest.mark.parametrize("part", LOOKED[1:])
async def test_a_plan_that_goes_on_during_an_inspection_is_not_called_lost(
    journal: SQLiteJournal, other: SQLiteJournal, part: str
) -> None:
    ran = await before(journal, part, lambda: other.append(PLAN, 1, [EVENT]))
    assert await SQLiteInspection(journal).streams() == []
    assert ran


def damage(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute(statement, (PLAN,)).rowcount == 1
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE summaries SET stream = CAST(stream AS BLOB) WHERE stream = ?",
        "UPDATE summaries SET summary = CAST(summary AS BLOB) WHERE stream = ?",
    ],
)
async def test_a_line_of_the_list_whose_text_became_a_blob_is_a_damaged_one(
    journal: SQLiteJournal, tmp_path: Path, statement: str
) -> None:
    await journal.append(LATER, 0, [EVENT], summary={"plan": 2})
    damage(tmp_path / "patchyard.db", statement)
    assert await journal.summaries() == [(LATER, {"plan": 2}), (PLAN, {})]


async def test_a_noted_stream_whose_name_became_a_blob_is_named_by_an_inspection(
    journal: SQLiteJournal, tmp_path: Path
) -> None:
    await journal.append(LATER, 0, [EVENT])
    statement = "UPDATE heads SET stream = CAST(stream AS BLOB) WHERE stream = ?"
    damage(tmp_path / "patchyard.db", statement)
    (said,) = await SQLiteInspection(journal).streams()
    assert PLAN in said
