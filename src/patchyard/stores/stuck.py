"""Ends the owner of plans that is stopped in the middle of a write, which nobody else could."""

import contextlib
import sqlite3
from pathlib import Path

from patchyard.clients.locks import LOOK_S, STUCK_S, end_stopped, holders
from patchyard.stores import leasing

WRITING = 120  # byte of the shared memory that a writer locks: WAL_WRITE_LOCK, sqlite.org/walformat


def end_stopped_writer(connection: sqlite3.Connection) -> None:
    """Kill who holds the file's write lock and is stopped, if that is an owner of plans."""
    ((_, _, path),) = connection.execute("PRAGMA database_list").fetchall()
    with contextlib.suppress(sqlite3.Error):  # who waits for the file says what is wrong with it
        owners = {member.seat.pid for member in leasing.members(connection)}
        for pid in owners.intersection(holders(Path(f"{path}-shm"), byte=WRITING)):
            end_stopped(pid)


__all__ = ["LOOK_S", "STUCK_S", "end_stopped_writer"]
