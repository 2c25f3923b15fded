"""Taking old plans out of the SQLite journal, and what only they had named."""

import asyncio
import re
import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial

from patchyard.domain.retention import Removed
from patchyard.stores import heads
from patchyard.stores.sqlite import SQLiteJournal

DIGEST = re.compile(r'"([0-9a-f]{64})"')  # whatever could name a body
REMOVED = "SELECT plan_id, events, head, at FROM removed ORDER BY at, plan_id"
BESIDE = (
    "DELETE FROM summaries WHERE stream = ?",
    "DELETE FROM begun WHERE stream = ?",
    "DELETE FROM reservations WHERE stream = ?",
    "DELETE FROM jobs WHERE job = ?",
    "DELETE FROM slots WHERE job = ?",
    "DELETE FROM leases WHERE job = ?",  # the caller's own
)
EVERY_STREAM = (
    "WITH RECURSIVE every(stream) AS ("
    " SELECT min(stream) FROM events"
    " UNION ALL"
    " SELECT (SELECT min(stream) FROM events WHERE stream > every.stream) FROM every"
    " WHERE every.stream IS NOT NULL"
    ") SELECT stream FROM every WHERE stream IS NOT NULL"
)
"""Goes from stream to stream by the index; a plain DISTINCT would read every event."""

BATCH = 500


class SQLitePruning:
    """contracts.pruning.Pruning over the tables of SQLiteJournal."""

    def __init__(self, journal: SQLiteJournal) -> None:
        self._journal = journal

    async def forget(self, removed: Removed) -> None:
        """See contracts.pruning.Pruning."""
        self._journal.head_files.forget(*_streams_of(removed.plan_id))  # before: a kill forgets it
        await self._journal.within(lambda connection: _forget(connection, removed))

    async def removed(self) -> Sequence[Removed]:
        """See contracts.pruning.Pruning."""
        rows = await self._journal.look(lambda connection: connection.execute(REMOVED).fetchall())
        return [Removed(plan_id=row[0], events=row[1], head=row[2], at=row[3]) for row in rows]

    async def sweep_bodies(self) -> int:
        """See contracts.pruning.Pruning."""
        due = [plan_id for (plan_id,) in await self._journal.look(_unswept)]
        if not due or await self._is_damaged():
            return 0  # an event that is hidden may name any of them
        seen: dict[str, int] = {}
        named: set[str] = set()
        for stream in await self._journal.look(_streams):
            named |= await self._journal.look(partial(_named, stream=stream, seen=seen))
            await asyncio.sleep(0)
        unnamed = await self._journal.look(lambda db: _without(db, named))
        freed = 0
        for start in range(0, len(unnamed), BATCH):
            batch = unnamed[start : start + BATCH]
            freed += await self._journal.within(partial(_delete, digests=batch, seen=seen))
            await asyncio.sleep(0)
        await self._journal.within(partial(_mark, plans=due))
        return freed

    async def _is_damaged(self) -> bool:
        noted = self._journal.head_files.noted()
        return await self._journal.view(lambda connection: any(heads.unlike(connection, noted)))


def _forget(connection: sqlite3.Connection, removed: Removed) -> None:
    plan_id = removed.plan_id
    connection.execute(
        "INSERT OR IGNORE INTO removed (plan_id, events, head, at) VALUES (?, ?, ?, ?)",
        (plan_id, removed.events, removed.head, removed.at),
    )
    for stream in _streams_of(plan_id):
        connection.execute("DELETE FROM events WHERE stream = ?", (stream,))
        connection.execute("DELETE FROM heads WHERE stream = ?", (stream,))
    for statement in BESIDE:
        connection.execute(statement, (plan_id,))


def _streams_of(plan_id: str) -> tuple[str, str]:
    return plan_id, f"control:{plan_id}"


def _unswept(connection: sqlite3.Connection) -> list[tuple[str]]:
    return connection.execute("SELECT plan_id FROM removed WHERE swept = 0").fetchall()


def _mark(connection: sqlite3.Connection, *, plans: Sequence[str]) -> None:
    """Note that what these plans alone had named is gone."""
    rows = [(plan_id,) for plan_id in plans]
    connection.executemany("UPDATE removed SET swept = 1 WHERE plan_id = ?", rows)


def _streams(connection: sqlite3.Connection) -> list[str]:
    return [stream for (stream,) in connection.execute(EVERY_STREAM)]


def _named(connection: sqlite3.Connection, *, stream: str, seen: dict[str, int]) -> set[str]:
    """Return what the events of a stream name that were not looked at before."""
    found: set[str] = set()
    rows = connection.execute(
        "SELECT version, body FROM events WHERE stream = ? AND version > ? ORDER BY version",
        (stream, seen.get(stream, 0)),
    )
    for version, body in rows:
        seen[stream] = version
        found.update(DIGEST.findall(body))
    return found | set(_deeper(connection, found))


def _deeper(connection: sqlite3.Connection, digests: set[str]) -> Iterator[str]:
    """Yield what bodies name in their turn: an event too large for its row lies in one."""
    for digest in digests:
        row = connection.execute("SELECT data FROM bodies WHERE digest = ?", (digest,)).fetchone()
        if row is not None:
            yield from DIGEST.findall(bytes(row[0]).decode("utf-8", "replace"))


def _without(connection: sqlite3.Connection, named: set[str]) -> list[str]:
    return [d for (d,) in connection.execute("SELECT digest FROM bodies") if d not in named]


def _delete(connection: sqlite3.Connection, *, digests: list[str], seen: dict[str, int]) -> int:
    """Delete bodies, but for what was named since they were looked for. Nobody writes meanwhile."""
    again: set[str] = set()
    for stream in _streams(connection):
        again |= _named(connection, stream=stream, seen=seen)
    freed = 0
    for digest in set(digests) - again:
        (size,) = connection.execute(
            "SELECT length(data) FROM bodies WHERE digest = ?", (digest,)
        ).fetchone() or (0,)
        connection.execute("DELETE FROM bodies WHERE digest = ?", (digest,))
        freed += size
    return freed


__all__ = ["SQLitePruning"]
