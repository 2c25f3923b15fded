"""The last event of each stream, noted where a fault of its rows does not reach: a row, and a file.

The row is written in the transaction of the event. The file is written after it, without a sync: a
crash may leave it behind the journal, never ahead of it. One that cannot be read says nothing.
"""

import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from patchyard.domain.chain import Head
from patchyard.domain.errors import JournalBroken
from patchyard.stores.database import RESTORE

NOTED = "SELECT version, hash FROM heads WHERE stream = ?"
NOTE = (
    "INSERT INTO heads VALUES (?, ?, ?)"
    " ON CONFLICT (stream) DO UPDATE SET version = excluded.version, hash = excluded.hash"
)
WRITING = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
KEPT_OPEN = 16
MOST_BYTES = 200  # of a file: a version, a hash, a checksum


class HeadFiles:
    """A small file for each stream, in a folder beside the database."""

    def __init__(self, database: Path) -> None:
        self.folder = folder_of(database)
        self._open: dict[str, int] = {}  # descriptors, by stream: opening takes longer than writing

    def note(self, stream: str, head: Head) -> None:
        """Write it down; a disk that has no room for it keeps what was noted before."""
        text = f"{head.version:012} {head.hash}"
        line = f"{text} {zlib.crc32(text.encode()):08x}\n".encode()
        with suppress(OSError):
            os.pwrite(self._opened(stream), line, 0)

    def _opened(self, stream: str) -> int:
        descriptor = self._open.get(stream)
        if descriptor is None:
            if len(self._open) >= KEPT_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            self.folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(self.folder / stream, WRITING, 0o600)
            self._open[stream] = descriptor
        return descriptor

    def close(self) -> None:
        """Close what is open; `note` opens it again."""
        while self._open:
            os.close(self._open.popitem()[1])

    def of(self, stream: str) -> Head | None:
        """Return what was noted, None where that is not known."""
        try:
            with (self.folder / stream).open("rb") as file:
                line = file.read(MOST_BYTES)
            text, _, check = line.decode("ascii").rstrip("\n").rpartition(" ")
            if int(check, 16) != zlib.crc32(text.encode()):
                return None
            version, digest = text.split(" ")
            return Head(version=int(version), hash=digest)
        except (OSError, ValueError):
            return None

    def streams(self) -> list[str]:
        """Return the streams of which there is a file."""
        with suppress(OSError), os.scandir(self.folder) as entries:
            return [entry.name for entry in entries]
        return []

    def noted(self) -> Mapping[str, Head]:
        """Return what was noted of each stream of which that is known."""
        found = ((stream, self.of(stream)) for stream in self.streams())
        return {stream: head for stream, head in found if head is not None}

    def forget(self, *streams: str) -> None:
        """Delete the files of streams that are about to go."""
        for stream in streams:
            if stream in self._open:
                os.close(self._open.pop(stream))
            with suppress(OSError):
                (self.folder / stream).unlink()


def folder_of(database: Path) -> Path:
    """Return the folder of the files that belong to a database."""
    return database.with_suffix(".heads")


def require(connection: sqlite3.Connection, stream: str, found: int, last: str) -> None:
    """Raise JournalBroken where a stream does not end with the event that was noted."""
    noted = connection.execute(NOTED, (stream,)).fetchone()
    if noted is not None and noted != (found, last):
        raise JournalBroken(
            f"the journal of {stream} ends with event {found}, and event {noted[0]} was noted as"
            " its last",
            hint=RESTORE,
        )


def unlike(connection: sqlite3.Connection, files: Mapping[str, Head]) -> Iterator[str]:
    """Yield a sentence for each stream that does not reach what was noted of it.

    `files` are what the files said before the view of `connection` began.
    """
    rows = dict(_rows(connection))
    gone = {stream for (stream,) in connection.execute("SELECT plan_id FROM removed")}
    streams = {*rows, *files} - gone - {f"control:{each}" for each in gone}
    for stream in sorted(streams, key=str):  # damage makes a text a blob
        for noted in filter(None, (files.get(stream), rows.get(stream))):
            found = connection.execute(
                "SELECT hash FROM events WHERE stream = ? AND version = ?",
                (stream, noted.version),
            ).fetchone()
            if found is None:
                yield f"event {noted.version} of {stream} was noted, and is lost"
                break
            if found[0] not in {"", noted.hash}:
                yield f"event {noted.version} of {stream} is not the one that was noted"
                break


def _rows(connection: sqlite3.Connection) -> Sequence[tuple[str, Head]]:
    rows = connection.execute("SELECT stream, version, hash FROM heads").fetchall()
    return [(row[0], Head(version=row[1], hash=row[2])) for row in rows]


__all__ = ["NOTE", "NOTED", "HeadFiles", "folder_of", "require", "unlike"]
