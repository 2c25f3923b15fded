"""Streams that many connections share: a port, two pipes, what a container engine attaches."""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

READ_BYTES = 256 * 1024
ATTACHED = struct.Struct(">B3xI")  # which stream, and how much of it follows
STDOUT, STDERR = 1, 2


class Trunk:
    """One stream, over a descriptor for both ways or one for each; they stay their opener's."""

    def __init__(self, reads: int, writes: int | None = None) -> None:
        self.reads = reads
        self.writes = reads if writes is None else writes
        os.set_blocking(self.reads, False)
        os.set_blocking(self.writes, False)

    def read(self) -> bytes:
        """Return what came, nothing at the end. Raises BlockingIOError where nothing came."""
        return os.read(self.reads, READ_BYTES)

    def write(self, data: bytes | bytearray) -> int:
        """Return how much of it was taken. Raises BlockingIOError when nothing is now."""
        return os.write(self.writes, data)


class Attached(Trunk):
    """A container's standard streams as its engine passes them on: what it says comes in frames.

    `said` gets what came on standard error.
    """

    def __init__(self, stream: int, said: Callable[[bytes], None]) -> None:
        super().__init__(stream)
        self._said = said
        self._head = bytearray()
        self._kind = 0
        self._left = 0  # of the frame that is being read

    def read(self) -> bytes:
        """See Trunk. Raises OSError for what no engine sends."""
        data = super().read()
        if not data:
            return data
        found = self._sorted(data)
        if not found:
            raise BlockingIOError
        return found

    def _sorted(self, data: bytes) -> bytes:
        """Return what of it is standard output."""
        found = []
        start = 0
        while start < len(data):
            if not self._left:
                begin, start = start, start + ATTACHED.size - len(self._head)
                self._head += data[begin:start]
                if len(self._head) < ATTACHED.size:
                    break
                self._kind, self._left = ATTACHED.unpack(self._head)
                self._head.clear()
                if self._kind not in (STDOUT, STDERR):
                    raise OSError("the container engine sent a frame of no stream")
            piece = data[start : start + self._left]
            start += len(piece)
            self._left -= len(piece)
            if self._kind == STDOUT:
                found.append(piece)
            elif piece:
                self._said(piece)
        return b"".join(found)


__all__ = ["ATTACHED", "READ_BYTES", "STDERR", "STDOUT", "Attached", "Trunk"]
