"""Small contents one behind the other in files that only grow: one sync for all that are new.

A record is a mark, the content's SHA-256, its size and the content. Each writer has a pack of its
own; what a kill or a power cut tore at the end of one is passed over.
"""

import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HEAD = struct.Struct("<4s32sQ")
MARK = b"PYB1"
SUFFIX = ".pack"
PACK_BYTES = 256 * 1024 * 1024  # a new pack is begun after that
APPENDING = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Record(NamedTuple):
    """Where a content lies."""

    pack: Path
    offset: int
    size: int


def sync_packs(folder: Path) -> None:
    """Bring to the disk what writers that were killed may only have appended."""
    for pack in folder.glob(f"*{SUFFIX}"):
        descriptor = os.open(pack, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def records(folder: Path) -> Iterator[tuple[str, Record]]:
    """Yield digest and place of each whole record in the packs of a folder."""
    for pack in sorted(folder.glob(f"*{SUFFIX}")):
        descriptor = os.open(pack, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield from _records(descriptor, pack)
        finally:
            os.close(descriptor)


def _records(descriptor: int, pack: Path) -> Iterator[tuple[str, Record]]:
    end, at = os.fstat(descriptor).st_size, 0
    while at + HEAD.size <= end:
        mark, digest, size = HEAD.unpack(os.pread(descriptor, HEAD.size, at))
        if mark != MARK or at + HEAD.size + size > end:
            return
        yield digest.hex(), Record(pack, at + HEAD.size, size)
        at += HEAD.size + size


def read(record: Record, digest: str) -> bytes | None:
    """Return a content; None where it does not match its digest. Raises FileNotFoundError."""
    descriptor = os.open(record.pack, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        content = os.pread(descriptor, record.size, record.offset)
    finally:
        os.close(descriptor)
    return content if hashlib.sha256(content).hexdigest() == digest else None


class Pack:
    """The pack of one writer, open while something is appended."""

    def __init__(self, place: Path) -> None:
        """Open or make it. Raises OSError."""
        self.place = place
        self._descriptor = os.open(place, APPENDING, 0o600)
        self.size = os.fstat(self._descriptor).st_size

    def append(self, digest: str, content: bytes) -> Record:
        """Add a content; nothing of it stays where the disk takes no more."""
        data = HEAD.pack(MARK, bytes.fromhex(digest), len(content)) + content
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        record = Record(self.place, self.size + HEAD.size, len(content))
        self.size += len(data)
        return record

    def sync(self) -> None:
        """Bring it to the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close it; it can be opened again."""
        os.close(self._descriptor)


__all__ = [
    "HEAD",
    "MARK",
    "PACK_BYTES",
    "SUFFIX",
    "Pack",
    "Record",
    "read",
    "records",
    "sync_packs",
]
