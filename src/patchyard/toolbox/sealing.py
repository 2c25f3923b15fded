"""Marks the frames of a stream that others can write to, so that each end knows the other's.

gVisor before 2023 lets a program open what its toolbox has open. It cannot read the toolbox's
memory: only the two ends know the key, which comes before any program runs.
"""

from __future__ import annotations

import hashlib
import hmac
import struct

KEY_BYTES = 32
MARK_BYTES = 16
COUNT = struct.Struct(">Q")


class Seal:
    """One end's marks: keyed BLAKE2b (RFC 7693) over the direction, the number and the frame."""

    size = MARK_BYTES

    def __init__(self, key: bytes, *, is_first: bool) -> None:
        self._key = key
        self._ours, self._theirs = (b"first", b"second") if is_first else (b"second", b"first")
        self._sent = self._taken = 0

    def mark(self, head: bytes, data: bytes) -> bytes:
        """Return the mark of the next frame that is sent."""
        self._sent += 1
        return self._made(self._ours, self._sent, head, data)

    def fits(self, head: bytes, data: bytes, mark: bytes) -> bool:
        """Whether `mark` is that of the next frame of the other end."""
        self._taken += 1
        return hmac.compare_digest(mark, self._made(self._theirs, self._taken, head, data))

    def _made(self, whose: bytes, number: int, head: bytes, data: bytes) -> bytes:
        made = hashlib.blake2b(key=self._key, digest_size=MARK_BYTES, person=whose)
        made.update(COUNT.pack(number))
        made.update(head)
        made.update(data)
        return made.digest()


__all__ = ["KEY_BYTES", "MARK_BYTES", "Seal"]
