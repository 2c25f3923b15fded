"""The bus between processes that share a home: a short table of the journal's file, looked at."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from patchyard.contracts.bus import QUEUED, Message, Subscription
from patchyard.contracts.clock import Clock
from patchyard.engine.enduring import Enduring
from patchyard.stores.mailboxes import Mailbox, encoded
from patchyard.stores.sqlite import SQLiteJournal

POLL_S = 0.2
TROUBLED_POLL_S = 1.0
KEPT = 2_000  # messages that stay for who looks only now and then
LAST = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'bus'), 0)"
NEWER = (  # texts as bytes: one that cannot be decoded would fail the whole look
    "SELECT number, CAST(topic AS BLOB), CAST(sender AS BLOB),"
    " CASE WHEN typeof(at) = 'real' THEN at END, CAST(body AS BLOB) FROM bus"
    " WHERE number > ? ORDER BY number LIMIT 500"
)

Row = tuple[int, bytes, bytes, float | None, bytes]


class SQLiteBus:
    """contracts.bus.Bus over a table of SQLiteJournal. Numbers have no gaps: what is gone shows."""

    def __init__(
        self,
        journal: SQLiteJournal,
        clock: Clock,
        *,
        kept: int = KEPT,
        size: int = QUEUED,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._kept = kept
        self._size = size

    async def publish(self, topic: str, body: Mapping[str, Any], *, sender: str = "") -> None:
        """See contracts.bus.Bus."""
        text, at = encoded(topic, body), self._clock.now()

        def publish(connection: sqlite3.Connection) -> None:
            added = connection.execute(
                "INSERT INTO bus (topic, sender, at, body) VALUES (?, ?, ?, ?)",
                (topic, sender, at, text),
            )
            last = added.lastrowid or 0
            connection.execute("DELETE FROM bus WHERE number <= ?", (last - self._kept,))

        await self._journal.within(publish)

    @asynccontextmanager
    async def subscribe(self, *topics: str) -> AsyncIterator[Subscription]:
        """See contracts.bus.Bus."""
        own = Mailbox(topics, size=self._size)
        (last,) = await self._journal.look(lambda known: known.execute(LAST).fetchone())
        looking = asyncio.create_task(self._look(own, last), name="bus")
        try:
            yield own
        finally:
            looking.cancel()
            await asyncio.wait([looking])

    async def _look(self, own: Mailbox, last: int) -> None:
        """Bring what is new to a mailbox, until cancelled; a database in trouble is asked again."""
        endures = Enduring()
        rows: Sequence[Row] = ()
        pause_s = POLL_S
        while True:
            await asyncio.sleep(pause_s)
            with endures.passing("the bus") as looking:
                rows = await self._newer(last)
            if looking.error is not None:
                pause_s = TROUBLED_POLL_S
                continue
            pause_s = POLL_S
            for row in rows:
                number, message = row[0], None
                with endures.passing(f"message {number} of the bus"):
                    message = _message(row)
                if (missed := number - last - (message is not None)) > 0:
                    own.miss(missed)
                last = number
                if message is not None:
                    own.put(message)

    async def _newer(self, last: int) -> Sequence[Row]:
        return await self._journal.look(lambda known: known.execute(NEWER, (last,)).fetchall())


def _message(row: Row) -> Message | None:
    """Return what a row says; None for one that is no message, whoever wrote it."""
    _, topic, sender, at, text = row
    try:
        body = json.loads(text)
        if not (isinstance(body, dict) and at is not None):
            return None
        return Message(topic=topic.decode(), body=body, sender=sender.decode(), at=at)
    except (ValueError, TypeError, RecursionError):
        return None


__all__ = ["KEPT", "POLL_S", "TROUBLED_POLL_S", "SQLiteBus"]
