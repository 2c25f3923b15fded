"""The journal on SQLite: what was appended is there, once, in order, by one writer."""

import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchyard.contracts.journal import NewEvent
from patchyard.domain.chain import faults
from patchyard.domain.errors import Conflict, JournalBroken, StateRefusal, Unavailable
from patchyard.stores import database
from patchyard.stores.database import APPLICATION_ID
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio


def event(text: str) -> NewEvent:
    return NewEvent(type="Noted", schema=1, at=1.0, body={"text": text})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "patchyard.db"


@pytest.fixture
def journal(path: Path) -> Iterator[SQLiteJournal]:
    opened = SQLiteJournal.open(path)
    yield opened
    opened._connection.close()


async def test_events_come_back_in_order_from_another_process_too(
    journal: SQLiteJournal, path: Path
) -> None:
    assert await journal.append("P", 0, [event("a"), event("b")]) == 2
    assert await journal.append("P", 2, [event("c")]) == 3
    other = SQLiteJournal.open(path)
    found = await other.read("P", after=1)
    await other.close()
    assert [(e.version, e.body["text"]) for e in found] == [(2, "b"), (3, "c")]


async def test_each_event_is_hashed_with_the_one_before_it(journal: SQLiteJournal) -> None:
    await journal.append("P", 0, [event("a"), event("b")])
    await journal.append("Q", 0, [event("a")])
    await journal.append("P", 2, [event("c")])
    entries = await journal.entries("P")
    assert [(e.version, e.text) for e in entries] == [
        (1, '{"text":"a"}'),
        (2, '{"text":"b"}'),
        (3, '{"text":"c"}'),
    ]
    assert faults(entries) == ()
    assert await journal.entries("P", after=2) == entries[2:]
    assert (await journal.entries("Q"))[0].hash != entries[0].hash


async def test_events_of_an_older_version_get_their_hashes_with_the_next(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    for statement in database.migrations()[0].split(";\n"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    row = ("P", 1, "Noted", 1, 1.5, '{"text":"old"}')
    connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()
    journal = SQLiteJournal.open(path)
    assert faults(await journal.entries("P")) == ()
    await journal.append("P", 1, [event("new")])
    entries = await journal.entries("P")
    await journal.close()
    assert (len(entries), faults(entries)) == (2, ())


async def test_a_second_writer_is_refused_and_nothing_is_written(journal: SQLiteJournal) -> None:
    await journal.append("P", 0, [event("a")])
    with pytest.raises(Conflict, match="version 1, expected 0"):
        await journal.append("P", 0, [event("b")], bodies={"d": b"x"})
    assert len(await journal.read("P")) == 1
    with pytest.raises(JournalBroken, match="missing"):
        await journal.body("d")


async def test_bodies_are_stored_with_the_events_that_name_them(journal: SQLiteJournal) -> None:
    data = b"\x00large"
    digest = hashlib.sha256(data).hexdigest()
    await journal.append("P", 0, [event("a")], bodies={digest: data})
    await journal.append("P", 1, [event("b")], bodies={digest: data})
    assert await journal.body(digest) == data


async def test_a_damaged_body_is_reported(journal: SQLiteJournal) -> None:
    digest = hashlib.sha256(b"right").hexdigest()
    await journal.append("P", 0, [event("a")], bodies={digest: b"wrong"})
    with pytest.raises(JournalBroken, match="damaged"):
        await journal.body(digest)


async def test_summaries_are_listed_newest_first(journal: SQLiteJournal) -> None:
    await journal.append("01A", 0, [event("a")], summary={"n": 1})
    await journal.append("01B", 0, [event("a")], summary={"n": 2})
    await journal.append("01A", 1, [event("b")], summary={"n": 3})
    await journal.append("01A", 2, [event("c")])
    assert await journal.summaries() == [("01B", {"n": 2}), ("01A", {"n": 3})]


@pytest.mark.parametrize("damaged", ["", "{", '{"n":1},{"n":1}', "7", "[{}]", "[" * 100_000])
async def test_a_damaged_summary_is_empty_and_the_others_are_as_they_were(
    journal: SQLiteJournal, damaged: str
) -> None:
    for number, plan in enumerate(["01A", "01B", "01C"]):
        await journal.append(plan, 0, [event("a")], summary={"n": number})
    journal._connection.execute("UPDATE summaries SET summary = ? WHERE stream = '01B'", [damaged])
    assert await journal.summaries() == [("01C", {"n": 2}), ("01B", {}), ("01A", {"n": 0})]


def test_the_file_is_for_its_owner_alone(journal: SQLiteJournal, path: Path) -> None:
    assert journal is not None
    assert path.stat().st_mode & 0o777 == 0o600


def test_every_append_is_synced(journal: SQLiteJournal) -> None:
    assert journal._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_newer_database_is_refused_with_the_cure(path: Path) -> None:
    SQLiteJournal.open(path)._connection.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StateRefusal, match="newer Patchyard") as caught:
        SQLiteJournal.open(path)
    assert "upgrade" in caught.value.hint


def test_somebody_elses_database_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(StateRefusal, match="not one of Patchyard"):
        SQLiteJournal.open(path)


def test_what_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"no database at all, but long enough to be taken for one" * 40)
    with pytest.raises(JournalBroken, match="damaged"):
        SQLiteJournal.open(path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="nowhere"):
        SQLiteJournal.open(tmp_path / "nowhere" / "x.db")


async def test_a_full_disk_is_said(journal: SQLiteJournal) -> None:
    (pages,) = journal._connection.execute("PRAGMA page_count").fetchone()
    journal._connection.execute(f"PRAGMA max_page_count = {pages + 8}")

    async def fill() -> None:
        for version in range(50):
            await journal.append("P", version, [event("x" * 4000)])

    with pytest.raises(Unavailable, match="disk is full"):
        await fill()
    assert await journal.read("P")


async def test_an_event_that_is_no_json_is_reported(journal: SQLiteJournal) -> None:
    journal._connection.execute("INSERT INTO events VALUES ('P', 1, 'Noted', 1, 0.0, '{', '')")
    journal._connection.execute("INSERT INTO events VALUES ('Q', 1, 'Noted', 1, 0.0, '[]', '')")
    with pytest.raises(JournalBroken, match="event 1 of P"):
        await journal.read("P")
    with pytest.raises(JournalBroken, match="not an object"):
        await journal.read("Q")


def test_a_path_longer_than_sqlite_takes_is_named_as_the_cause(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 200) / ("b" * 200) / ("c" * 100)
    folder.mkdir(parents=True)

    with pytest.raises(Unavailable, match="longer than SQLite takes") as caught:
        SQLiteJournal.open(folder / "patchyard.db")

    assert "shorter path" in caught.value.hint
