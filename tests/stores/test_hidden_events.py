"""A journal whose index was damaged so that its last events cannot be found."""

import sqlite3
from pathlib import Path

import pytest

from patchyard.contracts.journal import NewEvent
from patchyard.domain.chain import Head, faults
from patchyard.domain.errors import JournalBroken
from patchyard.domain.ids import ulid
from patchyard.domain.retention import Removed
from patchyard.engine.integrity import intact
from patchyard.stores.inspection import SQLiteInspection
from patchyard.stores.pruning import SQLitePruning
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio

PLAN = ulid(1_700_000_000_000, 5)
EVENTS = 42
INTERIOR = 2  # type of a page in an index's upper levels, sqlite.org/fileformat2.html


def event(number: int) -> NewEvent:
    return NewEvent(type="Noted", schema=1, at=1.0, body={"text": f"{number} {'x' * 300}"})


async def written(path: Path, *, events: int = EVENTS) -> None:
    journal = SQLiteJournal.open(path)
    for number in range(events):
        await journal.append(PLAN, number, [event(number)])
    await journal.close()


def found_last(path: Path) -> int:
    """The number of the last event that the index leads to; 0 where it leads nowhere."""
    connection = sqlite3.connect(path)
    last = "SELECT max(version) FROM events WHERE stream = ?"
    try:
        return int(connection.execute(last, (PLAN,)).fetchone()[0] or 0)
    except sqlite3.DatabaseError:
        return 0
    finally:
        connection.close()


def contents(path: Path) -> bytes:
    return path.read_bytes()


def hide(path: Path) -> int:
    """Flip a bit of a separator's key, so that the last events are hidden; return who is seen."""
    connection = sqlite3.connect(path)
    (root,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'events'"
    ).fetchone()
    connection.close()
    data = bytearray(path.read_bytes())
    begin = (root - 1) * 4096
    assert data[begin] == INTERIOR
    end = begin + 4096
    keys = [place for place in range(begin, end) if data[place : place + 26] == PLAN.encode()]
    for place in (key + letter for key in keys for letter in range(20, 26)):
        for bit in range(8):
            data[place] ^= 1 << bit
            path.write_bytes(data)
            if 0 < found_last(path) < EVENTS:
                return found_last(path)
            data[place] ^= 1 << bit
    raise AssertionError("no bit of the separator hides anything")


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A journal whose last events are hidden by one flipped bit."""
    place = tmp_path / "patchyard.db"
    await written(place)
    assert hide(place) < EVENTS
    return place


@pytest.fixture
async def unseen(path: Path) -> Path:
    """As before, without any file of heads: what is noted in the database alone."""
    for place in path.with_suffix(".heads").iterdir():
        place.unlink()
    return path


async def test_a_plan_is_not_taken_up_where_its_last_events_are_hidden(unseen: Path) -> None:
    journal = SQLiteJournal.open(unseen)
    with pytest.raises(JournalBroken, match=f"to {EVENTS} are lost") as caught:
        await intact(journal, PLAN)
    assert caught.value.exit_code == 1
    await journal.close()


async def test_no_second_event_is_written_under_the_number_of_a_hidden_one(unseen: Path) -> None:
    journal = SQLiteJournal.open(unseen)
    seen, before = found_last(unseen), contents(unseen)
    with pytest.raises(JournalBroken, match=f"event {EVENTS} was noted as its last"):
        await journal.append(PLAN, seen, [event(seen)])
    await journal.close()
    assert contents(unseen) == before


async def test_the_file_of_a_head_tells_it_where_the_row_does_not(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM heads")
    connection.commit()
    connection.close()
    journal = SQLiteJournal.open(path)
    with pytest.raises(JournalBroken, match=f"to {EVENTS} are lost"):
        await intact(journal, PLAN)
    await journal.close()


async def test_an_inspection_names_the_damage_and_the_plan(unseen: Path) -> None:
    journal = SQLiteJournal.open(unseen)
    inspection = SQLiteInspection(journal)
    assert "damaged" in (await inspection.structure())[0]
    (said,) = await inspection.streams()
    assert f"event {EVENTS} of {PLAN}" in said
    await journal.close()


async def test_bodies_that_hidden_events_may_name_are_not_swept(unseen: Path) -> None:
    journal = SQLiteJournal.open(unseen)
    connection = journal._connection
    connection.execute("INSERT INTO bodies VALUES ('d', x'00')")
    pruning = SQLitePruning(journal)
    await pruning.forget(Removed(plan_id=ulid(1, 1), events=1, head="", at=1.0))
    assert await pruning.sweep_bodies() == 0
    assert connection.execute("SELECT count(*) FROM bodies").fetchone() == (1,)
    await journal.close()


async def test_a_sound_journal_says_nothing(tmp_path: Path) -> None:
    await written(tmp_path / "patchyard.db", events=3)
    journal = SQLiteJournal.open(tmp_path / "patchyard.db")
    inspection = SQLiteInspection(journal)
    assert [*await inspection.structure(), *await inspection.streams()] == []
    entries, noted = await journal.entries(PLAN), await journal.noted(PLAN)
    assert noted == [Head(version=3, hash=entries[-1].hash)] * 2
    assert faults(entries, noted=noted) == ()
    await journal.close()


async def test_a_file_that_is_behind_or_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "patchyard.db"
    await written(path, events=2)
    file = path.with_suffix(".heads") / PLAN
    behind = file.read_bytes()
    journal = SQLiteJournal.open(path)
    await journal.append(PLAN, 2, [event(2)])
    await journal.close()
    for content in (behind, b"", b"\0" * 87, behind[:40], behind.replace(b"2 ", b"9 ", 1)):
        file.write_bytes(content)
        journal = SQLiteJournal.open(path)
        assert len(await intact(journal, PLAN)) == 3
        await journal.close()


async def test_a_home_of_a_version_without_heads_opens_as_before_and_has_them_then(
    tmp_path: Path,
) -> None:
    path = tmp_path / "patchyard.db"
    await written(path, events=3)
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE heads")
    connection.execute("PRAGMA user_version = 6")
    connection.commit()
    connection.close()
    (path.with_suffix(".heads") / PLAN).unlink()

    journal = SQLiteJournal.open(path)

    entries = await intact(journal, PLAN)
    assert await journal.noted(PLAN) == [Head(version=3, hash=entries[-1].hash)]
    await journal.append(PLAN, 3, [event(3)])
    assert len(await intact(journal, PLAN)) == 4
    await journal.close()


async def test_a_plan_that_was_removed_leaves_no_head(tmp_path: Path) -> None:
    path = tmp_path / "patchyard.db"
    await written(path, events=2)
    journal = SQLiteJournal.open(path)
    await SQLitePruning(journal).forget(Removed(plan_id=PLAN, events=2, head="", at=1.0))
    assert await journal.noted(PLAN) == []
    assert await journal.summaries() == []
    assert await SQLiteInspection(journal).streams() == []
    await journal.close()
