"""The file that the journal lies in: opened, brought up to date, and what SQLite says of it."""

import errno
import functools
import importlib.resources
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from patchyard.clients.locks import locked
from patchyard.clients.room import explained, lacks_files
from patchyard.domain.errors import (
    Conflict,
    JournalBroken,
    Outdated,
    PatchyardError,
    StateRefusal,
    Unavailable,
)
from patchyard.domain.ids import is_ulid
from patchyard.domain.machine import read_only
from patchyard.stores import older, reading, wal
from patchyard.stores.binding import TextTaking

APPLICATION_ID = 0x50594A31  # "PYJ1" in the file's header
BUSY_S = 10.0  # how long another process is waited for
RETRY_S = 0.005  # between two tries
PATH_BYTES = 504  # SQLite's 512 (MAX_PATHNAME in its os_unix.c) less what it appends itself
DAMAGED = (  # SQLite's words for what is not as it was written, or lacks what its schema says
    *("not a database", "malformed", "already exists", "duplicate column"),
    *("no such table", "no such column", "unsupported file format"),
    *("codec can't decode", "Could not decode"),
)
RESTORE = "restore the database from a backup; nothing was changed"
HAS_NO_PLAN = (
    "SELECT NOT EXISTS (SELECT 1 FROM events WHERE stream >= '0' AND stream < '8')"
    " AND NOT EXISTS (SELECT 1 FROM removed)"
)
"""A plan's stream is its ULID, which begins with one of the digits 0 to 7."""

LOCKED = "{} is locked by another process"
LOCKED_HINT = "try again in a moment"


def connected(path: Path, traces: Sequence[Path] = ()) -> sqlite3.Connection:
    """Open or make the database at `path`, up to date.

    `traces` are folders in which plans leave something once their first event is on disk. Where
    they did and the database has no plan, it was lost: a new one would hide that.
    Raises StateRefusal, JournalBroken, sqlite3.Error.
    """
    left = [*filter(_has_entries, traces)]  # looked at before the database: written after it
    if left and not (path.exists() and path.stat().st_size):
        raise _lost(path, "is empty" if path.exists() else "is missing", left)
    wal.require_whole(path)
    connection = _for_looking(path) if reading.is_closed(path) else _up_to_date(path)
    try:
        if left:
            _require_plans(connection, path, left)
        connection.execute("PRAGMA busy_timeout = 0")  # from here on `_tried` waits
    except BaseException:
        connection.close()
        raise
    return connection


def _has_entries(folder: Path) -> bool:
    """Whether a plan has left something in a folder; what else lies there has other names."""
    try:
        with os.scandir(folder) as entries:
            return any(is_ulid(entry.name) for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _require_plans(connection: sqlite3.Connection, path: Path, left: Sequence[Path]) -> None:
    if connection.execute(HAS_NO_PLAN).fetchone() == (1,):
        raise _lost(path, "has no plan", left)


def _lost(path: Path, said: str, left: Sequence[Path]) -> JournalBroken:
    where = " and ".join(map(str, left))
    return JournalBroken(
        f"the database {path} {said}, but plans have left files in {where}",
        hint="restore the database from a backup; nothing was changed. To begin anew without those"
        f" plans, move away {where}",
    )


def _up_to_date(path: Path) -> sqlite3.Connection:
    """Open the database with the schema of this version, brought to it where that is due.

    One process at a time migrates. It opens the database anew once it may, so that who else has it
    open by then is of the version that the database is of.
    """
    connection, version = _opened(path)
    if version == known_version():
        return connection
    connection.close()
    lock = path.with_suffix(".migrating")
    with locked(lock, timeout_s=BUSY_S):
        connection, version = _opened(path)
        try:
            _migrate_all(connection, path, version)
            lock.unlink()
        except BaseException:
            connection.close()
            raise
    return connection


def _for_looking(path: Path) -> sqlite3.Connection:
    """Open a database that cannot be written to; it must refuse a write to a copy of it too."""
    connection = reading.opened(path, timeout_s=BUSY_S)
    try:
        version = _known(connection, path)
        if version < known_version():
            connection = reading.copied(connection)
            for number, script in enumerate(migrations()[version:], start=version + 1):
                migrate(connection, number, script)
        connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate_all(connection: sqlite3.Connection, path: Path, version: int) -> None:
    known = migrations()
    if 0 < version < len(known):
        older.require_none(connection, path, version=version, known=len(known))
    for number, script in enumerate(known[version:], start=version + 1):
        migrate(connection, number, script)


def _opened(path: Path) -> tuple[sqlite3.Connection, int]:
    """Open the database as it is; return the version of its schema with it."""
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, factory=TextTaking)
    try:
        path.chmod(0o600)
        return connection, _version(connection, path)
    except BaseException:
        connection.close()
        raise


def _version(connection: sqlite3.Connection, path: Path) -> int:
    _enter_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")
    return _known(connection, path)


def _known(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of the schema. Raises StateRefusal for one that is newer or not ours."""
    known = known_version()
    connection.execute("BEGIN")  # one view of all three: another process may be migrating
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    connection.execute("COMMIT")
    if tables and application != APPLICATION_ID:
        raise StateRefusal(
            f"{path} is a database, but not one of Patchyard",
            hint="set PATCHYARD_HOME to another folder, or move that file away",
        )
    if version > known:
        raise StateRefusal(
            f"{path} was written by a newer Patchyard (schema {version}, known here {known})",
            hint="upgrade Patchyard, or set PATCHYARD_HOME to another folder",
        )
    return version


def require_current(connection: sqlite3.Connection) -> None:
    """Raise Outdated, within a transaction, where a newer version has migrated the database."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > known_version():
        raise Outdated(
            f"a newer Patchyard has changed the database (schema {version}; this process, number"
            f" {os.getpid()}, knows {known_version()}): it writes nothing more",
            details={"schema": version, "known": known_version()},
        )


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; SQLite's own busy wait does not cover that switch."""
    deadline = time.monotonic() + BUSY_S
    while not _entered_wal(connection):
        if time.monotonic() > deadline:
            raise Conflict(LOCKED.format("the database"), hint=LOCKED_HINT)
        time.sleep(RETRY_S)


def _entered_wal(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
        return False
    return True


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process holds the file."""
    code: int = getattr(error, "sqlite_errorcode", 0)  # none for what is ours, as a closed file
    return code & 0xFF == sqlite3.SQLITE_BUSY  # all its extended codes too


def is_full(error: Exception) -> bool:
    """Whether there is no room; SQLite says so in two ways of its shared memory too."""
    code = getattr(error, "sqlite_errorcode", None)
    full = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP}
    return code in full or getattr(error, "errno", None) == errno.ENOSPC


def migrate(connection: sqlite3.Connection, number: int, script: str) -> None:
    """Run one script in a transaction, unless another process has done so."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version < number:  # another process may have been faster
            for statement in script.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite may have rolled back by itself
            connection.execute("ROLLBACK")
        raise


@functools.cache
def known_version() -> int:
    """Return the number of the newest schema that this process knows."""
    return len(migrations())


def migrations() -> list[str]:
    """Return the scripts that make the schema, in their order."""
    folder = importlib.resources.files("patchyard.stores") / "sql" / "sqlite"
    files = sorted((entry for entry in folder.iterdir()), key=lambda entry: entry.name)
    return [entry.read_text(encoding="utf-8") for entry in files if entry.name.endswith(".sql")]


def translated(error: Exception, path: Path | None, *, home: Path | None = None) -> PatchyardError:
    """Return our error for one of SQLite; `path` where it comes from opening that file."""
    text = str(error)
    if path is None and "readonly database" in text:
        return read_only(str(home))
    where = f"the database {path}" if path else "the database"
    is_refused = path is not None and "unable to open" in text and lacks_files(path.parent)
    if is_refused or is_full(error) or "No space left" in text:
        full = Unavailable(f"{where} cannot grow: the disk is full", hint="free some space; resume")
        return explained(full, [path.parent] if path else [])
    if any(words in text for words in DAMAGED):
        return JournalBroken(f"{where} is damaged: {text}", hint=RESTORE)
    if "locked" in text:
        return Conflict(LOCKED.format(where), hint=LOCKED_HINT)
    return _unusable(where, path, text)


def _unusable(where: str, path: Path | None, text: str) -> Unavailable:
    if path and "unable to open" in text and len(os.fsencode(path.absolute())) > PATH_BYTES:
        return Unavailable(
            f"{where} cannot be used: its path is longer than SQLite takes ({PATH_BYTES} bytes)",
            hint="set PATCHYARD_HOME to a shorter path",
        )
    if path and not os.access(path.parent, os.W_OK):
        return Unavailable(
            f"{where}, which holds plans and resources, cannot be written to",
            hint="set PATCHYARD_HOME to a folder that you can write to, or mount it writable",
        )
    return Unavailable(f"{where} cannot be used: {text}", hint="check PATCHYARD_HOME")


__all__ = [
    "APPLICATION_ID",
    "BUSY_S",
    "LOCKED",
    "LOCKED_HINT",
    "PATH_BYTES",
    "RESTORE",
    "RETRY_S",
    "connected",
    "is_busy",
    "is_full",
    "known_version",
    "migrate",
    "migrations",
    "require_current",
    "translated",
]
