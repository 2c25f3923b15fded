"""A journal that was damaged: by a crash in the middle of a write, by a disk, by a meddler."""

import os
import random
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from patchyard.contracts.journal import NewEvent
from patchyard.domain.chain import Entry, faults
from patchyard.domain.errors import JournalBroken, PatchyardError, StateRefusal, Unavailable
from patchyard.stores import database
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio

STEP = 1 if os.environ.get("PATCHYARD_SOAK") else 23  # bytes between two cuts
FLIPS = 1500 if os.environ.get("PATCHYARD_SOAK") else 150
SEED = int(os.environ.get("PATCHYARD_SEED", "20261121"))
BEFORE = 6  # events that were on disk before the last commit


def event(number: int) -> NewEvent:
    """One of the events that are written."""
    return NewEvent(type="Noted", schema=1, at=1.0, body={"text": f"{number} {'x' * 700}"})


async def torn(folder: Path) -> tuple[Path, int, int]:
    """Return a database whose last commit is only in its log, and where that begins and ends."""
    source, copy = folder / "source", folder / "copy"
    source.mkdir()
    copy.mkdir()
    journal = SQLiteJournal.open(source / "patchyard.db")
    for number in range(BEFORE):
        await journal.append("P", number, [event(number)])
    log = source / "patchyard.db-wal"
    begins = log.stat().st_size
    await journal.append("P", BEFORE, [event(BEFORE), event(BEFORE + 1)])
    ends = log.stat().st_size
    for name in ("patchyard.db", "patchyard.db-wal"):
        shutil.copy(source / name, copy / name)
    await journal.close()
    return copy, begins, ends


@pytest.mark.timeout(1200)  # a soak takes four minutes beside other work
async def test_a_commit_cut_off_at_any_byte_is_gone_as_a_whole_and_nothing_else(
    tmp_path: Path,
) -> None:
    copy, begins, ends = await torn(tmp_path)
    cuts = sorted({*range(begins, ends, STEP), begins, begins + 1, begins + 24, ends - 1, ends})
    place = tmp_path / "cut"
    for cut in cuts:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(copy, place)
        os.truncate(place / "patchyard.db-wal", cut)

        journal = SQLiteJournal.open(place / "patchyard.db")
        found = await journal.read("P")
        whole = BEFORE + 2 if cut == ends else BEFORE
        assert [one.version for one in found] == [*range(1, whole + 1)], cut
        await journal.append("P", whole, [event(whole)])
        assert faults(await journal.entries("P")) == ()
        await journal.close()


async def test_what_a_log_holds_behind_its_last_commit_is_passed_over(tmp_path: Path) -> None:
    copy, _, _ = await torn(tmp_path)
    with (copy / "patchyard.db-wal").open("ab") as log:
        log.write(random.Random(SEED).randbytes(5000))
    journal = SQLiteJournal.open(copy / "patchyard.db")
    assert len(await journal.read("P")) == BEFORE + 2
    await journal.close()


async def test_a_flipped_bit_is_named_or_without_meaning_and_never_written_over(
    tmp_path: Path,
) -> None:
    source = tmp_path / "patchyard.db"
    journal = SQLiteJournal.open(source)
    for number in range(BEFORE):
        await journal.append("P", number, [event(number)])
    intact = await journal.entries("P")
    await journal.close()
    data = source.read_bytes()
    chance = random.Random(SEED)
    told = 0
    for number in range(FLIPS):
        place = tmp_path / f"{number}.db"
        offset, bit = chance.randrange(100, len(data)), 1 << chance.randrange(8)
        flipped = bytearray(data)
        flipped[offset] ^= bit
        place.write_bytes(flipped)

        said = await faulty(place, intact)

        assert place.read_bytes() == bytes(flipped), offset
        told += bool(said)
    assert told > FLIPS // 50


async def faulty(path: Path, intact: Sequence[Entry]) -> str:
    """Return what is said of a damaged journal; nothing only if it still says the same."""
    try:
        journal = SQLiteJournal.open(path)
    except PatchyardError as error:
        return error.message
    try:
        noted = await journal.noted("P")
        entries = await journal.entries("P")
        await journal.read("P")
        found = faults(entries, noted=noted)
        assert found or entries == intact
    except PatchyardError as error:
        return error.message
    finally:
        await journal.close()
    return "; ".join(found)


def test_a_database_that_lacks_what_its_schema_says_is_damaged_and_left(tmp_path: Path) -> None:
    path = tmp_path / "patchyard.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {database.APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.execute("CREATE TABLE events (stream TEXT, hash TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(JournalBroken, match="is damaged") as caught:
        SQLiteJournal.open(path)
    assert caught.value.exit_code == 1
    assert "backup" in caught.value.hint
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


def test_a_newer_schema_is_refused_and_left(tmp_path: Path) -> None:
    path = tmp_path / "patchyard.db"
    SQLiteJournal.open(path)._connection.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(StateRefusal, match="newer Patchyard") as caught:
        SQLiteJournal.open(path)
    assert caught.value.exit_code == 3


async def test_a_lost_body_is_named(tmp_path: Path) -> None:
    journal = SQLiteJournal.open(tmp_path / "patchyard.db")
    with pytest.raises(JournalBroken, match="missing"):
        await journal.body("0" * 64)
    await journal.close()


def test_a_file_that_is_no_database_is_named_and_left(tmp_path: Path) -> None:
    path = tmp_path / "patchyard.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises((JournalBroken, Unavailable), match="damaged"):
        SQLiteJournal.open(path)
    assert path.read_bytes().startswith(b"not a database")
