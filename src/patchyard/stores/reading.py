"""A database in a home that cannot be written to, opened for looking alone.

Nothing is made beside it. One of an older schema is copied, and the copy brought up to date.
"""

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from urllib.parse import quote

from patchyard.stores.binding import TextTaking

COPY = "patchyard-look-"  # begins the folder of a copy, deleted once it is open


def is_closed(database: Path) -> bool:
    """Whether there is a database that this user may not write, or not beside."""
    if not database.exists():
        return False
    return not (os.access(database, os.W_OK) and os.access(database.parent, os.W_OK))


def opened(database: Path, *, timeout_s: float) -> sqlite3.Connection:
    """Open for reading; with its log, where one lies there, else as a file that stays as it is.

    Raises sqlite3.Error.
    """
    log, shared = (database.with_name(f"{database.name}-{end}") for end in ("wal", "shm"))
    is_shared = log.exists() and shared.exists()  # another may write, though the log is empty now
    if not is_shared and log.exists() and log.stat().st_size > 0:
        return _merged(database, log)
    place = f"file:{quote(os.fsencode(database.absolute()))}?mode=ro"
    if not is_shared:
        place += "&immutable=1"
    connection = sqlite3.connect(
        place, timeout=timeout_s, isolation_level=None, uri=True, factory=TextTaking
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _merged(database: Path, log: Path) -> sqlite3.Connection:
    """Copy a database with its log, which SQLite reads only where it may write beside it."""
    with tempfile.TemporaryDirectory(prefix=COPY) as folder:
        for place in (database, log):
            shutil.copyfile(place, Path(folder, place.name))
        return copied(sqlite3.connect(Path(folder, database.name), isolation_level=None))


def copied(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return a copy that may be written to, and is gone when it is closed; closes the other."""
    with tempfile.TemporaryDirectory(prefix=COPY) as folder:
        copy = sqlite3.connect(Path(folder, "copy.db"), isolation_level=None, factory=TextTaking)
        connection.backup(copy)
        connection.close()
        copy.execute("PRAGMA journal_mode = MEMORY")
    return copy


__all__ = ["COPY", "copied", "is_closed", "opened"]
