"""Small contents one behind the other in files that only grow: one sync for all that are new.

A record is a mark, the content's SHA-256, how many bytes follow, and the content; one that is
mostly zeros is compressed. Each writer has a pack of its own; what a kill or a power cut tore at
the end of one is passed over.
"""

import hashlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from patchyard.clients.sparse_files import CHUNK_BYTES
from patchyard.clients.syncing import put_file, sync
from patchyard.toolbox.holes import room_of

HEAD = struct.Struct("<4s32sQ")
MARK = b"PYB1"
MARK_COMPRESSED = b"PYB2"  # of a content that is mostly zeros
MOSTLY = 2  # times the room of its data that such a content has at least
SUFFIX = ".pack"
UNSYNCED = ".unsynced"  # instead, once the disk failed to take what was appended
PACK_BYTES = 256 * 1024 * 1024  # a new pack is begun after that
APPENDING = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Record(NamedTuple):
    """Where a content lies."""

    pack: Path
    offset: int
    size: int  # bytes there
    is_compressed: bool = False


def sync_packs(folder: Path) -> None:
    """Bring to the disk what writers that were killed may only have appended.

    A pack whose sync fails is written anew by the next call: the kernel takes it for synced then.
    """
    for pack in folder.glob(f"*{UNSYNCED}"):
        _write_anew(pack)
    for pack in folder.glob(f"*{SUFFIX}"):
        descriptor = os.open(pack, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            sync(descriptor)
        except OSError:
            pack.rename(pack.with_suffix(UNSYNCED))
            raise
        finally:
            os.close(descriptor)


def _write_anew(pack: Path) -> None:
    """Copy the records of a pack that are as they were into one whose sync has not failed.

    It gets a name of its own: the pack's writer may have begun another under the old one.
    """
    made = pack.with_name(f".{os.getpid()}-{pack.stem}")
    made.unlink(missing_ok=True)
    fresh = Pack(made)
    try:
        descriptor = os.open(pack, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            kept = list(_records(descriptor, pack))
        finally:
            os.close(descriptor)
        for digest, record in kept:
            content = read(record, digest)
            if content is not None:
                fresh.append(digest, content)
        fresh.sync()
    finally:
        fresh.close()
    put_file(made, pack.with_name(fresh_name()))
    pack.unlink()


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
        if mark not in {MARK, MARK_COMPRESSED} or at + HEAD.size + size > end:
            return
        yield digest.hex(), Record(pack, at + HEAD.size, size, mark == MARK_COMPRESSED)
        at += HEAD.size + size


def read(record: Record, digest: str) -> bytes | None:
    """Return a content; None where it does not match its digest. Raises FileNotFoundError."""
    descriptor = os.open(record.pack, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        content = os.pread(descriptor, record.size, record.offset)
    finally:
        os.close(descriptor)
    if record.is_compressed:
        try:
            content = zlib.decompressobj().decompress(content, CHUNK_BYTES)
        except zlib.error:
            return None
    return content if hashlib.sha256(content).hexdigest() == digest else None


def _compressed(content: bytes) -> bytes:
    """Compress runs of zeros to a thousandth, which takes 2 ms for each MiB."""
    runs = zlib.compressobj(level=1, strategy=zlib.Z_RLE)
    return runs.compress(content) + runs.flush()


def fresh_name() -> str:
    """Return a name that no pack has."""
    return f"{os.getpid()}-{os.urandom(6).hex()}{SUFFIX}"


class Pack:
    """The pack of one writer, open while something is appended."""

    def __init__(self, place: Path) -> None:
        """Open or make it. Raises OSError."""
        self.place = place
        self._descriptor = os.open(place, APPENDING, 0o600)
        self.size = self._synced = os.fstat(self._descriptor).st_size

    def append(self, digest: str, content: bytes) -> Record:
        """Add a content; nothing of it stays where the disk takes no more."""
        is_compressed = len(content) >= MOSTLY * room_of(content) and len(content) > HEAD.size
        kept = _compressed(content) if is_compressed else content
        mark = MARK_COMPRESSED if is_compressed else MARK
        data = HEAD.pack(mark, bytes.fromhex(digest), len(kept)) + kept
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        record = Record(self.place, self.size + HEAD.size, len(kept), is_compressed)
        self.size += len(data)
        return record

    def sync(self) -> None:
        """Bring it to the disk; what was appended and the disk did not take is cut off again."""
        try:
            sync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._synced)
            raise
        self._synced = self.size

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
    "fresh_name",
    "read",
    "records",
    "sync_packs",
]
