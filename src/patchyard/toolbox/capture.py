"""Output of a command: counted whole, kept at both ends, streamed as text."""

from __future__ import annotations

import codecs
import os
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

PIECE_BYTES = 64 * 1024
PIECES_A_TURN = 16


class Capture:
    """One stream of a command. Keeps `cap` bytes, half of them from the end."""

    def __init__(self, fd: int, cap: int, emit: Callable[[str], None]) -> None:
        os.set_blocking(fd, False)
        self.fd: int | None = fd
        self.total = 0
        self._room = cap - cap // 2
        self._tail_cap = cap // 2
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._emit = emit
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self.is_discarding = False

    def read(self) -> bool:
        """Take what is there, a bounded amount; True at the end of the stream."""
        for _ in range(PIECES_A_TURN):
            if self.fd is None:
                return True
            try:
                piece = os.read(self.fd, PIECE_BYTES)
            except BlockingIOError:
                return False
            if not piece:
                return True
            if not self.is_discarding:
                self._feed(piece)
        return False

    def _feed(self, piece: bytes) -> None:
        self.total += len(piece)
        text = self._decode(piece)
        if text:
            self._emit(text)
        if self._room:
            self._head.append(piece[: self._room])
            piece = piece[self._room :]
            self._room -= len(self._head[-1])
        if piece:
            self._tail.append(piece)
            self._tail_bytes += len(piece)
        while self._tail_bytes > self._tail_cap:
            over = self._tail_bytes - self._tail_cap
            first = self._tail.popleft()
            if len(first) > over:
                self._tail.appendleft(first[over:])
            self._tail_bytes -= min(over, len(first))

    @property
    def is_truncated(self) -> bool:
        """Whether the middle was left out."""
        return self.total > sum(map(len, self._head)) + self._tail_bytes

    def take_text(self) -> str:
        """Return what is kept; a line in the middle says how much is not."""
        head, tail = b"".join(self._head), b"".join(self._tail)
        missing = self.total - len(head) - len(tail)
        cut = b"\n[... %d bytes left out ...]\n" % missing if missing else b""
        return (head + cut + tail).decode("utf-8", "surrogateescape")

    def close(self) -> None:
        """Release the descriptor."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


__all__ = ["PIECES_A_TURN", "PIECE_BYTES", "Capture"]
