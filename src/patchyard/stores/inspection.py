"""A look at the SQLite journal as a whole: by SQLite's own check, and by the heads it has noted."""

import sqlite3
from collections.abc import Sequence

from patchyard.stores import heads
from patchyard.stores.sqlite import SQLiteJournal

CHECK = "PRAGMA integrity_check(20)"
FINE = "ok"


class SQLiteInspection:
    """contracts.inspection.Inspection over the file of SQLiteJournal."""

    def __init__(self, journal: SQLiteJournal) -> None:
        self._journal = journal

    async def structure(self) -> Sequence[str]:
        """See contracts.inspection.Inspection."""
        return await self._journal.look(_structure)

    async def streams(self) -> Sequence[str]:
        """See contracts.inspection.Inspection."""
        noted = self._journal.head_files.noted()  # before the view: the view then has their events
        return await self._journal.view(lambda connection: [*heads.unlike(connection, noted)])


def _structure(connection: sqlite3.Connection) -> list[str]:
    lines = [line for (text,) in connection.execute(CHECK) for line in str(text).splitlines()]
    return [f"the database is damaged: {line}" for line in lines if line != FINE]


__all__ = ["SQLiteInspection"]
