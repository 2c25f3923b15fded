"""Opens the stores of this installation: all that a command needs which only lists.

The rest of the engine is several times as much to load; `assembly.py` puts it on top of these.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.clock import SystemClock
from patchyard.clients.room import Ballast
from patchyard.config import Places, places
from patchyard.domain.errors import StateRefusal, Unavailable
from patchyard.stores.membership import Membership
from patchyard.stores.queue import SQLiteQueue
from patchyard.stores.sqlite import SQLiteJournal
from patchyard.stores.sqlite_bus import SQLiteBus

CHECKPOINTS = "checkpoints"  # folder in the home


@dataclass(frozen=True, kw_only=True)
class Storage:
    """The stores, open."""

    places: Places
    clock: SystemClock
    ballast: Ballast  # given up in portions when the journal finds no room
    journal: SQLiteJournal
    membership: Membership
    queue: SQLiteQueue
    bus: SQLiteBus


@asynccontextmanager
async def open_storage(environ: Mapping[str, str]) -> AsyncIterator[Storage]:
    """Open the stores and yield them; closed at the end.

    Raises StateRefusal when the home belongs to another user or to a newer version, JournalBroken
    when it has lost its database, Unavailable when it cannot be used.
    """
    where = places(environ)
    make_home(where.home)
    clock = SystemClock()
    ballast = Ballast(where.home / "ballast")
    journal = SQLiteJournal.open(
        where.database, relief=ballast.drop, traces=[where.home / CHECKPOINTS]
    )
    membership = Membership(journal, where.database, clock)
    try:
        yield Storage(
            places=where,
            clock=clock,
            ballast=ballast,
            journal=journal,
            membership=membership,
            queue=SQLiteQueue(membership, clock),
            bus=SQLiteBus(journal, clock),
        )
    finally:
        membership.rest()
        await journal.close()


def make_home(home: Path) -> None:
    """Make the state folder, for its owner alone.

    Raises Unavailable where it cannot be made, StateRefusal for somebody else's.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = home.stat()
    except OSError as error:
        raise Unavailable(
            f"the state folder {home}, where plans and resources are kept, cannot be made:"
            f" {error.strerror}",
            hint="set PATCHYARD_HOME to a folder of yours",
        ) from error
    if found.st_uid != os.geteuid():
        raise StateRefusal(
            f"the state folder {home} belongs to user {found.st_uid}",
            hint="set PATCHYARD_HOME to a folder of yours",
        )


__all__ = ["CHECKPOINTS", "Storage", "make_home", "open_storage"]
