"""Compressed answers, unpacked as they come: what is packed cannot be searched for a secret.

A host was asked for none; some send them all the same.
"""

import zlib
from collections.abc import Iterator
from http import HTTPStatus

from patchyard.clients.gateway_server import PIECE, Refused

CODINGS = frozenset({"deflate", "gzip", "x-gzip"})  # RFC 9110, 8.4.1
GZIP = b"\x1f\x8b"  # what it begins with (RFC 1952, 2.3.1)
START = 2  # bytes that say which of the three it is


class Packed:
    """A stream in one of the codings; it may hold several members, one after the other."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj()
        self._start = b""
        self._is_open = False  # within a member

    def unpacked(self, piece: bytes) -> Iterator[bytes]:
        """Yield what a piece holds, in pieces of bounded size. Raises Refused."""
        while piece:
            if not self._is_open:
                self._start += piece
                if len(self._start) < START:
                    return
                piece, self._start = self._start, b""
                self._stream, self._is_open = zlib.decompressobj(_window(piece)), True
            yield from self._told(piece)
            piece = self._stream.unused_data
            self._is_open = not self._stream.eof

    def _told(self, piece: bytes) -> Iterator[bytes]:
        try:
            while not self._stream.eof and (told := self._stream.decompress(piece, PIECE)):
                yield told
                piece = self._stream.unconsumed_tail
        except zlib.error as error:
            raise Refused(HTTPStatus.BAD_GATEWAY, "the answer is not packed as it says") from error

    def require_end(self) -> None:
        """Raise Refused where the stream is not over."""
        if self._is_open or self._start:
            raise Refused(HTTPStatus.BAD_GATEWAY, "the answer broke off within its packing")


def _window(piece: bytes) -> int:
    """Return how zlib is to read what begins so; some send deflate without its wrapping."""
    is_wrapped = piece[0] & 15 == zlib.DEFLATED and int.from_bytes(piece[:2], "big") % 31 == 0
    return zlib.MAX_WBITS | 32 if piece.startswith(GZIP) or is_wrapped else -zlib.MAX_WBITS


def codings(header: str) -> tuple[str, ...]:
    """Return the codings that `Content-Encoding` names, those that change something."""
    named = (part.strip().lower() for part in header.split(","))
    return tuple(part for part in named if part not in {"", "identity"})


__all__ = ["CODINGS", "GZIP", "START", "Packed", "codings"]
