"""Files with holes: read without the zeros of holes, and written so that zeros take no room."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator

from patchyard.toolbox.holes import (
    CHUNK_BYTES,
    Naming,
    parts,
    read_whole,
    write_with_holes,
    zeros_at,
)

ZEROS = bytes(CHUNK_BYTES)
BLOCK_UNIT_BYTES = 512  # of st_blocks
WITH_ZEROS = "-zeros"  # ends the name of a content that holds whole chunks of zeros

Part = bytes | int
"""Bytes, or a number of zeros."""


def room_of_file(status: os.stat_result) -> int:
    """Return the bytes that a file takes of its disk; holes take none."""
    return min(status.st_size, status.st_blocks * BLOCK_UNIT_BYTES)


def has_holes(source: int) -> bool:
    """Whether an open file takes less room than it has bytes."""
    status = os.fstat(source)
    return room_of_file(status) < status.st_size


def parts_of(source: int, *, until: int | None = None) -> Iterator[Part]:
    """Yield what a file holds, to byte `until` or to its end: CHUNK_BYTES at most, or zeros.

    Of a hole nothing is read. Where the descriptor stands is left open.
    """
    return parts(source, sys.maxsize if until is None else until)


def are_same(one: int, other: int) -> bool:
    """Whether two open files hold the same; what is a hole in both is not read."""
    end = os.fstat(one).st_size
    if os.fstat(other).st_size != end:
        return False
    at = 0
    while at < end:
        zeros = min(zeros_at(one, at, end), zeros_at(other, at, end))
        if not zeros:
            piece = read_whole(one, CHUNK_BYTES, at)
            if not piece or piece != read_whole(other, CHUNK_BYTES, at):
                return False
            zeros = len(piece)
        at += zeros
    return True


def pieces(source: int, *, until: int | None = None) -> Iterator[bytes]:
    """Yield the same as bytes, CHUNK_BYTES at most at a time."""
    return in_pieces(parts_of(source, until=until))


def in_pieces(content: Iterable[Part]) -> Iterator[bytes]:
    """Yield parts as bytes, CHUNK_BYTES at most at a time."""
    for part in content:
        if isinstance(part, bytes):
            yield part
            continue
        for at in range(0, part, CHUNK_BYTES):
            yield ZEROS if part - at >= CHUNK_BYTES else ZEROS[: part - at]


def fill(
    target: int, content: Iterable[Part], *, wrote: Callable[[int], object] = lambda _: None
) -> int:
    """Write all of a new file with holes in the place of zeros; return its size in bytes.

    `wrote` is told after each part how many bytes of it take room.
    """
    size = 0
    for part in content:
        if isinstance(part, int):
            size += part
            continue
        if part != ZEROS[: len(part)]:  # as a whole this is compared a hundred times faster
            wrote(write_with_holes(target, part, size))
        size += len(part)
    os.ftruncate(target, size)
    return size


class ContentName:
    """The name of a large content by its SHA-256, made while its parts pass.

    A content without a whole chunk of zeros is named by its plain SHA-256; so is one that an older
    version kept, whatever it holds, which `like` its name says. Any other one is named by the
    SHA-256 of its data, of where the zeros lie and of its size: holes are not hashed.
    """

    def __init__(self, *, like: str = "") -> None:
        """Take a name that the content has in a store, where it has one."""
        self._naming = Naming(hashlib.sha256)
        self._plain = hashlib.sha256() if like and not like.endswith(WITH_ZEROS) else None

    def passing(
        self, content: Iterable[Part], watch: Callable[[], object] = lambda: None
    ) -> Iterator[Part]:
        """Yield the parts once they are taken in; `watch` is called before each."""
        for part in content:
            watch()
            if self._plain is None:
                self._naming.take(part)
            else:
                self._take_plain(self._plain.update, part)
            yield part

    def _take_plain(self, update: Callable[[bytes], object], part: Part) -> None:
        if isinstance(part, bytes):
            update(part)
            return
        for at in range(0, part, CHUNK_BYTES):
            update(ZEROS[: part - at])

    def __str__(self) -> str:
        """Return the name, once all parts have passed."""
        if self._plain is not None:
            return self._plain.hexdigest()
        return self._naming.hexdigest() + (WITH_ZEROS if self._naming.has_zeros else "")


__all__ = [
    "CHUNK_BYTES",
    "WITH_ZEROS",
    "ContentName",
    "Part",
    "are_same",
    "fill",
    "has_holes",
    "in_pieces",
    "parts_of",
    "pieces",
    "room_of_file",
]
