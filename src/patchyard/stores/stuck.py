"""Ends the owner of plans that is stopped in the middle of a write, which nobody else could."""

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from patchyard.stores import leasing
from patchyard.stores.seats import end_stopped, seat_here

STUCK_S = 5.0  # that a write is waited for, before a look at who holds it; below DEAD_S
LOOK_S = 1.0  # between two looks
LOCKS = Path("/proc/locks")  # proc(5)
HELD = re.compile(
    r"\d+: POSIX +\S+ +WRITE +(?P<pid>\d+) (?P<place>\S+) (?P<start>\d+) (?P<end>\d+|EOF)"
)
WRITING = 120  # byte of the shared memory that a writer locks: WAL_WRITE_LOCK, sqlite.org/walformat


def end_stopped_writer(connection: sqlite3.Connection) -> None:
    """Kill the owner of plans that holds the file's write lock and is stopped, if one does."""
    ((_, _, path),) = connection.execute("PRAGMA database_list").fetchall()
    writing = set(_writers(Path(f"{path}-shm")))
    here = seat_here()
    with contextlib.suppress(sqlite3.Error):  # who waits for the file says what is wrong with it
        for member in leasing.members(connection) if writing else ():
            if member.seat.pid in writing:
                end_stopped(member.seat, here)


def _writers(shared: Path) -> Iterator[int]:
    """Yield who holds the write lock; opening that file here would let go of our own locks."""
    try:
        status, lines = shared.stat(), LOCKS.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in lines:
        found = HELD.fullmatch(line)
        if found is not None and found["place"] == place:
            end = found["end"]
            if int(found["start"]) <= WRITING and (end == "EOF" or int(end) >= WRITING):
                yield int(found["pid"])


__all__ = ["LOOK_S", "STUCK_S", "end_stopped_writer"]
