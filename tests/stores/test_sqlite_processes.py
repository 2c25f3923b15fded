"""The journal's file shared by processes that write at the same time."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from endings import ended
from patchyard.contracts.journal import NewEvent
from patchyard.domain.errors import Conflict, JournalBroken
from patchyard.stores import database, sqlite
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio

EVENTS = 60

WRITER = """
import asyncio, sys
from pathlib import Path
from patchyard.contracts.journal import NewEvent
from patchyard.domain.errors import Conflict, JournalBroken
from patchyard.stores.sqlite import SQLiteJournal

path, name, stream, count = sys.argv[1:]

async def main():
    journal = SQLiteJournal.open(Path(path))
    print("ready", flush=True)
    sys.stdin.readline()
    version = conflicts = 0
    for number in range(int(count)):
        event = NewEvent(type="Noted", schema=1, at=1.0, body={"by": name, "number": number})
        while True:
            try:
                version = await journal.append(stream, version, [event])
                break
            except Conflict:
                version = (await journal.read(stream))[-1].version
                conflicts += 1
    await journal.close()

asyncio.run(main())
"""


def write_at_once(path: Path, *streams: str) -> None:
    """Let one process a stream append, all of them at the same time."""
    with contextlib.ExitStack() as running:
        writers = [
            running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", WRITER, str(path), str(number), stream, str(EVENTS)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number, stream in enumerate(streams)
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
        for writer in writers:
            ended(writer)
            assert writer.returncode == 0


async def test_a_new_database_opened_by_many_at_once_is_ready_for_each(tmp_path: Path) -> None:
    def open_and_close(path: Path, start: threading.Barrier) -> None:
        start.wait()
        SQLiteJournal.open(path)._connection.close()

    for number in range(40):  # in 40 rounds of 4, an unguarded opening failed about 8 times
        start = threading.Barrier(4)
        openings = [
            asyncio.to_thread(open_and_close, tmp_path / f"{number}.db", start) for _ in range(4)
        ]
        await asyncio.gather(*openings)


async def test_two_processes_write_two_streams_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await asyncio.to_thread(write_at_once, path, "P", "Q")
    journal = SQLiteJournal.open(path)
    for by, stream in enumerate(("P", "Q")):
        found = await journal.read(stream)
        assert [event.version for event in found] == list(range(1, EVENTS + 1))
        assert [event.body for event in found] == [
            {"by": str(by), "number": number} for number in range(EVENTS)
        ]
    await journal.close()


async def test_two_processes_write_one_stream_and_neither_loses_or_doubles(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await asyncio.to_thread(write_at_once, path, "P", "P")
    journal = SQLiteJournal.open(path)
    found = await journal.read("P")
    await journal.close()
    assert [event.version for event in found] == list(range(1, 2 * EVENTS + 1))
    for name in ("0", "1"):
        own = [event.body["number"] for event in found if event.body["by"] == name]
        assert own == list(range(EVENTS))


async def test_a_database_somebody_holds_is_said_to_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_S", 0.01)
    path = tmp_path / "journal.db"
    journal = SQLiteJournal.open(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    event = NewEvent(type="Noted", schema=1, at=1.0, body={})
    with pytest.raises(Conflict, match="locked by another process"):
        await journal.append("P", 0, [event])
    holder.execute("ROLLBACK")
    holder.close()
    assert await journal.append("P", 0, [event]) == 1
    await journal.close()


async def test_while_somebody_holds_the_database_the_rest_of_the_engine_goes_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    journal = SQLiteJournal.open(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    event = NewEvent(type="Noted", schema=1, at=1.0, body={})
    appending = asyncio.create_task(journal.append("P", 0, [event]))
    abandoned = asyncio.create_task(journal.append("P", 0, [event]))
    await asyncio.sleep(0)  # both have tried
    assert not appending.done()
    abandoned.cancel()
    with pytest.raises(asyncio.CancelledError):
        await abandoned
    holder.execute("ROLLBACK")
    holder.close()
    assert await appending == 1
    assert len(await journal.read("P")) == 1
    await journal.close()


async def test_a_database_that_lost_its_tables_is_damaged(tmp_path: Path) -> None:
    journal = SQLiteJournal.open(tmp_path / "journal.db")
    journal._connection.execute("DROP TABLE summaries")
    with pytest.raises(JournalBroken, match="is damaged: no such table"):
        await journal.summaries()
    await journal.close()


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        database.migrate(connection, 1, "CREATE TABLE made (x);\nNO SUCH STATEMENT;\n")
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    database.migrate(connection, 1, "CREATE TABLE made (x);\n")
    database.migrate(connection, 1, "CREATE TABLE made (x);\n")  # another process was faster
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()
