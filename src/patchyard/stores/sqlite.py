"""The journal in one SQLite file: events, their bodies, and the summaries for lists.

Calls are short (a synced append takes about 0.2 ms), so they run where they are awaited. While
another process holds the file they try again, and leave the event loop to others in between.
"""

import asyncio
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from patchyard.contracts.journal import NewEvent, StoredEvent
from patchyard.domain.booking import Booking
from patchyard.domain.chain import Entry, Head, chained
from patchyard.domain.codec import from_text
from patchyard.domain.errors import Conflict, JournalBroken
from patchyard.domain.ids import is_ulid
from patchyard.domain.queue import Lease
from patchyard.stores import books, heads, leasing, stuck
from patchyard.stores.database import (
    BUSY_S,
    RESTORE,
    RETRY_S,
    connected,
    is_busy,
    is_full,
    require_current,
    translated,
)
from patchyard.stores.heads import HeadFiles

SUMMARISE = (
    "INSERT INTO summaries VALUES (?, ?)"
    " ON CONFLICT (stream) DO UPDATE SET summary = excluded.summary"
)
BEGUN = "INSERT OR IGNORE INTO begun (stream) VALUES (?)"
SHAPE = (int, str, int, float, str, str)  # of an event's row: version, type, schema, at, body, hash
ENTRIES = (
    "SELECT version, type, schema, at, body, hash FROM events"
    " WHERE stream = ? AND version > ? ORDER BY version"
)

LAST = "SELECT version, hash FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1"

PLANS = (
    "WITH RECURSIVE plans(stream) AS ("
    " SELECT min(stream) FROM events WHERE stream >= '0' AND stream < '8'"
    " UNION ALL"
    " SELECT (SELECT min(stream) FROM events WHERE stream > plans.stream AND stream < '8')"
    " FROM plans WHERE plans.stream IS NOT NULL"
    ") SELECT stream FROM plans WHERE length(stream) = 26"
    " UNION ALL SELECT stream FROM heads WHERE stream >= '0' AND stream < '8'"
)
"""The streams of plans, whose names are ULIDs, twice where both tables have them; goes from one to
the next by the index."""

T = TypeVar("T")
Relief = Callable[[], bool]  # makes room on the disk; False when it had none to give


def _no_relief() -> bool:
    return False


class SQLiteJournal:
    """contracts.journal.Journal and Summaries over one file, shared by processes."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        head_files: HeadFiles,
        *,
        relief: Relief = _no_relief,
        fence: Lease | None = None,
    ) -> None:
        self._connection = connection
        self.head_files = head_files
        self._relief = relief
        self._fence = fence

    @classmethod
    def open(
        cls, path: Path, *, relief: Relief = _no_relief, traces: Sequence[Path] = ()
    ) -> "SQLiteJournal":
        """Open or make the database at `path`, brought up to date.

        On a full disk `relief` is asked for room. Raises StateRefusal for a newer or foreign
        database, JournalBroken where it has no plan although there is something of one in the
        folders `traces`, Unavailable when it cannot be opened.
        """
        while True:
            try:
                opened = connected(path, [*traces, heads.folder_of(path)])
                return cls(opened, HeadFiles(path), relief=relief)
            except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                if not (is_full(error) and relief()):
                    raise translated(error, path) from error

    def fenced(self, lease: Lease) -> "SQLiteJournal":
        """See contracts.journal.Fencing."""
        return SQLiteJournal(self._connection, self.head_files, relief=self._relief, fence=lease)

    async def append(
        self,
        stream: str,
        expected: int,
        events: Sequence[NewEvent],
        *,
        bodies: Mapping[str, bytes] | None = None,
        summary: Mapping[str, Any] | None = None,
        booking: Booking | None = None,
    ) -> int:
        """See contracts.journal.Journal."""
        entries = [
            Entry(
                stream=stream, version=expected + number, type=event.type, schema=event.schema,
                at=event.at, text=_encode(event.body),
            )
            for number, event in enumerate(events, start=1)
        ]  # fmt: skip

        def write(connection: sqlite3.Connection) -> str:
            if self._fence is not None:
                leasing.require(connection, self._fence)
            last = self._insert(stream, expected, entries, bodies or {})
            if summary is not None:
                connection.execute(SUMMARISE, (stream, _encode(summary)))
                if not expected:
                    connection.execute(BEGUN, (stream,))
            if booking is not None:
                books.book(connection, stream, booking)
            return last

        head = Head(version=expected + len(entries), hash=await self.within(write))
        if entries:
            self.head_files.note(stream, head)
        return head.version

    async def within(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` in one synced step: for what else lies in this file."""
        return await self._tried(lambda: self._transacted(work))

    async def look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Let `work` read with one statement what else lies in this file."""
        return await self._tried(lambda: work(self._connection))

    async def view(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Let `work` read with several statements, which all see the file as it is now."""
        return await self._tried(lambda: self._viewed(work))

    def _viewed(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._connection.execute("BEGIN")
        try:
            return work(self._connection)
        finally:
            self._connection.execute("ROLLBACK")

    def _transacted(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            require_current(self._connection)
            done = work(self._connection)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return done

    async def _tried(self, work: Callable[[], T]) -> T:
        """Do `work`, again and again while another process holds the file, up to BUSY_S."""
        began = time.monotonic()
        look_s = stuck.STUCK_S
        while True:
            try:
                return work()
            except UnicodeDecodeError as error:  # SQLite's own message quotes what is damaged
                raise translated(error, None) from error
            except sqlite3.Error as error:
                if is_full(error) and self._relief():
                    continue
                waited_s = time.monotonic() - began
                if not is_busy(error) or waited_s > BUSY_S:
                    home = self.head_files.folder.parent
                    raise translated(error, None, home=home) from error
                if waited_s > look_s:
                    look_s = waited_s + stuck.LOOK_S
                    stuck.end_stopped_writer(self._connection)
            await asyncio.sleep(RETRY_S)

    def _insert(
        self,
        stream: str,
        expected: int,
        entries: Sequence[Entry],
        bodies: Mapping[str, bytes],
    ) -> str:
        """Insert, and return the hash of the stream's last event."""
        last = self._connection.execute(LAST, (stream,)).fetchone()
        found, previous = last or (0, "")
        heads.require(self._connection, stream, found, previous)
        if found != expected:
            raise Conflict(
                f"somebody else has written to {stream} (version {found}, expected {expected})",
                hint="look at it with `agents plan status` and try again",
                details={"found": found, "expected": expected},
            )
        if bodies:
            self._connection.executemany(
                "INSERT OR IGNORE INTO bodies VALUES (?, ?)", list(bodies.items())
            )
        if found and not previous:
            previous = self._chain_old(stream)
        if not entries:
            return str(previous)
        hashes = chained(previous, entries)
        self._connection.executemany(
            "INSERT INTO events (stream, version, type, schema, at, body, hash)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (stream, each.version, each.type, each.schema, each.at, each.text, own)
                for each, own in zip(entries, hashes, strict=True)
            ],
        )
        self._connection.execute(heads.NOTE, (stream, entries[-1].version, hashes[-1]))
        return hashes[-1]

    def _chain_old(self, stream: str) -> str:
        """Give the events of an older version their hashes; return the last."""
        entries = _entries(stream, self._connection.execute(ENTRIES, (stream, 0)))
        hashes = chained("", entries)
        self._connection.executemany(
            "UPDATE events SET hash = ? WHERE stream = ? AND version = ?",
            [(own, stream, each.version) for each, own in zip(entries, hashes, strict=True)],
        )
        return hashes[-1]

    async def read(self, stream: str, *, after: int = 0) -> Sequence[StoredEvent]:
        """See contracts.journal.Journal."""
        rows = await self._execute(
            "SELECT version, type, schema, at, body FROM events"
            " WHERE stream = ? AND version > ? ORDER BY version",
            (stream, after),
        )
        return StoredEvent.of_all(_entries(stream, rows))

    async def entries(self, stream: str, *, after: int = 0) -> Sequence[Entry]:
        """See contracts.journal.Journal."""
        last = next((row[0] for row in await self._execute(LAST, (stream,))), 0)
        found = _entries(stream, await self._execute(ENTRIES, (stream, after)))
        seen = found[-1].version if found else after
        if type(last) is not int or seen < last:  # a row between them is lost to the index
            raise JournalBroken(f"events of {stream} after {seen} are lost", hint=RESTORE)
        return found

    async def noted(self, stream: str) -> Sequence[Head]:
        """See contracts.journal.Journal."""
        file = self.head_files.of(stream)
        rows = await self._execute(heads.NOTED, (stream,))
        return [*filter(None, [file]), *(Head(version=row[0], hash=row[1]) for row in rows)]

    async def body(self, digest: str) -> bytes:
        """See contracts.journal.Journal."""
        rows = await self._execute("SELECT data FROM bodies WHERE digest = ?", (digest,))
        data = bytes(rows[0][0]) if rows else b""
        if not rows or hashlib.sha256(data).hexdigest() != digest:
            raise JournalBroken(
                f"the body {digest[:12]}… is {'damaged' if rows else 'missing'} in the journal",
                hint="restore the database from a backup; nothing was overwritten",
            )
        return data

    async def summaries(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """See contracts.journal.Summaries."""
        files = self.head_files.streams()  # before the view: the view then has their events
        rows = await self.view(lambda connection: _listed(connection, files))
        return list(zip(rows, _summaries(rows), strict=True))

    async def close(self) -> None:
        """See contracts.journal.Journal."""
        self.head_files.close()
        self._connection.close()

    async def _execute(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return await self._tried(lambda: self._connection.execute(sql, values).fetchall())


def _listed(connection: sqlite3.Connection, files: Sequence[str]) -> dict[str, str]:
    """Return the summary of each plan, empty where it is lost; the one begun last comes first."""
    found = connection.execute("SELECT stream, summary FROM summaries").fetchall()
    rows = {stream: text for stream, text in found if (type(stream), type(text)) == (str, str)}
    unlisted = {*files, *(row[0] for row in connection.execute(PLANS))} - rows.keys()
    if unlisted:
        unlisted -= {row[0] for row in connection.execute("SELECT plan_id FROM removed")}
    rows |= dict.fromkeys(filter(is_ulid, unlisted), "")
    begun = connection.execute("SELECT stream FROM begun ORDER BY number DESC").fetchall()
    newest_first = {stream: rows[stream] for (stream,) in begun if stream in rows}
    others = sorted(rows.keys() - newest_first.keys(), reverse=True)
    return newest_first | {stream: rows[stream] for stream in others}


def _summaries(rows: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Return what lists show of each stream; read at once where all are whole, in half the time."""
    found: list[Mapping[str, Any]] = []
    with suppress(ValueError, RecursionError):
        found = json.loads(f"[{','.join(rows.values())}]")
    if len(found) == len(rows) and all(type(each) is dict for each in found):
        return found
    return [_summary(stream, text) for stream, text in rows.items()]


def _summary(stream: str, text: str) -> Mapping[str, Any]:
    """Return what lists show of a stream; nothing where that is damaged: others stay listed."""
    try:
        return from_text(text, "the summary of {}", stream)
    except JournalBroken:
        return {}


def _entries(stream: str, rows: Iterable[tuple[Any, ...]]) -> list[Entry]:
    return [Entry(stream, *row) for row in _sound(stream, rows)]


def _sound(stream: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield rows that are of the shape in which they were written."""
    for row in rows:
        if tuple(map(type, row)) != SHAPE[: len(row)]:
            raise JournalBroken(f"an event of {stream} is damaged", hint=RESTORE)
        yield row


def _encode(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"))


__all__ = ["SUMMARISE", "SQLiteJournal"]
