"""Writes content such that blocks of nothing but zeros take no room: a hole stays a hole."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Tuple

    Run = Tuple[int, memoryview]  # where it begins in the data, and what it holds

BLOCK_BYTES = 4096  # of the file systems that files usually lie on
ZEROS = bytes(BLOCK_BYTES)


def filled(data: bytes) -> Iterator[Run]:
    """Yield the parts of `data` that are no holes, each as long as it can be."""
    view = memoryview(data)
    begun = -1
    for start in range(0, len(data), BLOCK_BYTES):
        block = view[start : start + BLOCK_BYTES]
        if block == ZEROS[: len(block)]:
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


def write_with_holes(descriptor: int, data: bytes, offset: int) -> None:
    """Write `data` at `offset` of a new file. Who writes the last of it sets the file's size."""
    for start, part in filled(data):
        at, rest = offset + start, part
        while rest:
            written = os.pwrite(descriptor, rest, at)
            at, rest = at + written, rest[written:]


__all__ = ["BLOCK_BYTES", "filled", "room_of", "write_with_holes"]
