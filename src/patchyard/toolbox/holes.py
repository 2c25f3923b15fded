"""Files with holes: a hole is neither read, nor hashed, nor written. Standard library only.

What a file holds comes in parts: bytes, or a number of zeros. Whole chunks of nothing but zeros
are such a number, whether they are a hole or lie on the disk, so that equal files have one name.
"""

from __future__ import annotations

import base64
import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Tuple, Union

    Run = Tuple[int, memoryview]  # where it begins in the data, and what it holds
    Part = Union[bytes, int]

BLOCK_BYTES = 4096  # of the file systems that files usually lie on
CHUNK_BYTES = 1024 * 1024
BLOCK = bytes(BLOCK_BYTES)
CHUNK = bytes(CHUNK_BYTES)
NUMBER = struct.Struct(">Q")
SEEK_DATA: int | None = getattr(os, "SEEK_DATA", None)  # a system without it has no holes for us


def filled(data: bytes) -> Iterator[Run]:
    """Yield the parts of `data` that are no holes, each as long as it can be."""
    view = memoryview(data)
    begun = -1
    for start in range(0, len(data), BLOCK_BYTES):
        block = view[start : start + BLOCK_BYTES]
        if block == BLOCK[: len(block)]:
            if begun >= 0:
                yield begun, view[begun:start]
                begun = -1
        elif begun < 0:
            begun = start
    if begun >= 0:
        yield begun, view[begun:]


def room_of(data: bytes) -> int:
    """Return how many bytes of blocks `data` takes where it is written with its holes."""
    return sum(-(-len(part) // BLOCK_BYTES) * BLOCK_BYTES for _, part in filled(data))


def write_with_holes(descriptor: int, data: bytes, offset: int) -> int:
    """Write `data` at `offset` of a new file; return how many bytes were no holes.

    Who writes the last of it sets the file's size.
    """
    total = 0
    for start, part in filled(data):
        at, rest = offset + start, part
        total += len(part)
        while rest:
            written = os.pwrite(descriptor, rest, at)
            at, rest = at + written, rest[written:]
    return total


def data_from(source: int, at: int) -> int:
    """Return where the next data at or after `at` begins, the file's end where there is none."""
    if SEEK_DATA is None:
        return at
    try:
        return os.lseek(source, at, SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return max(at, os.fstat(source).st_size)
        if error.errno == errno.EINVAL:  # a file system without holes
            return at
        raise


def zeros_at(source: int, at: int, end: int) -> int:
    """Return how many zeros of a hole begin at `at`: whole chunks, or all up to byte `end`."""
    data = min(data_from(source, at), end)
    return data - at if data == end else (data - at) // CHUNK_BYTES * CHUNK_BYTES


def parts(source: int, end: int) -> Iterator[Part]:
    """Yield what a file holds to byte `end`, or to its own end: chunks, and numbers of zeros.

    Each part begins at a multiple of CHUNK_BYTES. Where the descriptor stands is left open.
    """
    end = min(end, os.fstat(source).st_size)
    at = 0
    while at < end:
        zeros = zeros_at(source, at, end)
        if zeros:
            yield zeros
            at += zeros
            continue
        chunk = read_whole(source, min(CHUNK_BYTES, end - at), at)
        if not chunk:
            return
        yield len(chunk) if is_zeros(chunk) else chunk
        at += len(chunk)
        if len(chunk) % CHUNK_BYTES:
            return


def read_whole(source: int, length: int, at: int) -> bytes:
    """Return `length` bytes from `at` on, fewer at the end of the file only."""
    found = os.pread(source, length, at)
    while 0 < len(found) < length:
        more = os.pread(source, length - len(found), at + len(found))
        if not more:
            break
        found += more
    return found


def is_zeros(chunk: bytes) -> bool:
    """Whether there is nothing but zeros in a chunk, or in several."""
    if len(chunk) > CHUNK_BYTES:
        starts = range(0, len(chunk), CHUNK_BYTES)
        return all(is_zeros(chunk[at : at + CHUNK_BYTES]) for at in starts)
    return chunk == (CHUNK if len(chunk) == CHUNK_BYTES else CHUNK[: len(chunk)])


def encoded(part: Part) -> str | int:
    """Return a part as it travels: base 64, or the number of zeros."""
    return part if isinstance(part, int) else base64.b64encode(part).decode("ascii")


class Naming:
    """Hashes a content by its data, by where whole chunks of zeros lie, and by its size."""

    def __init__(self, new: Callable[[], Any]) -> None:
        """Take what makes a hash."""
        self.has_zeros = False
        self.size = 0  # of what was hashed; less than a chunk may wait
        self._data = new()
        self._runs = new()
        self._begun = -1  # where the zeros that were taken in last begin
        self._rest = b""  # the beginning of a chunk

    def take(self, part: Part) -> None:
        """Take in the next part, however a content is cut into them."""
        if isinstance(part, int):
            self._take_zeros(part)
            return
        at = 0
        if self._rest:
            at = CHUNK_BYTES - len(self._rest)
            self._add(self._rest + part[:at])
        while at < len(part):
            self._add(part[at : at + CHUNK_BYTES] if len(part) > CHUNK_BYTES or at else part)
            at += CHUNK_BYTES

    def _take_zeros(self, count: int) -> None:
        if self._rest:
            missing = min(count, CHUNK_BYTES - len(self._rest))
            self._add(self._rest + CHUNK[:missing])
            count -= missing
        whole = count // CHUNK_BYTES * CHUNK_BYTES
        self._skip(whole)
        if count > whole:
            self._rest = CHUNK[: count - whole]

    def _add(self, chunk: bytes) -> None:
        """Hash a chunk; one that is not whole waits for what follows."""
        self._rest = b"" if len(chunk) == CHUNK_BYTES else chunk
        if not self._rest:
            self._hash(chunk)

    def _hash(self, chunk: bytes) -> None:
        if is_zeros(chunk):
            self._skip(len(chunk))
            return
        self._end_run()
        self._data.update(chunk)
        self.size += len(chunk)

    def _skip(self, zeros: int) -> None:
        if zeros > 0:
            self._begun = self.size if self._begun < 0 else self._begun
            self.has_zeros = True
            self.size += zeros

    def _end_run(self) -> None:
        if self._begun >= 0:
            self._runs.update(NUMBER.pack(self._begun) + NUMBER.pack(self.size))
            self._begun = -1

    def hexdigest(self) -> str:
        """Return the name, once all is taken in.

        Without whole chunks of zeros it is the plain hash of the content.
        """
        if self._rest:
            self._hash(self._rest)
            self._rest = b""
        self._end_run()
        found = self._data.copy()
        if self.has_zeros:
            found.update(self._runs.digest() + NUMBER.pack(self.size))
        return str(found.hexdigest())


__all__ = [
    "BLOCK_BYTES",
    "CHUNK_BYTES",
    "Naming",
    "data_from",
    "encoded",
    "filled",
    "is_zeros",
    "parts",
    "read_whole",
    "room_of",
    "write_with_holes",
    "zeros_at",
]
