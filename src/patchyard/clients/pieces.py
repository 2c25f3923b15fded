"""Pieces of files as a far toolbox is asked for them: so many at a time as fit in one answer."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Piece(NamedTuple):
    """A part of a file: where it begins and how long it is, in bytes."""

    path: str
    offset: int
    length: int


def grouped(
    files: Sequence[tuple[str, int]], *, most_bytes: int, most_pieces: int
) -> Iterator[list[Piece]]:
    """Yield pieces to ask for together, a file's in their order; an empty file is one piece.

    `files` has a path and a size in bytes each. No group is above either bound.
    """
    group: list[Piece] = []
    size = 0
    for path, total in files:
        for offset in range(0, max(total, 1), most_bytes):
            piece = Piece(path, offset, min(most_bytes, total - offset))
            if group and (size + piece.length > most_bytes or len(group) >= most_pieces):
                yield group
                group, size = [], 0
            group.append(piece)
            size += piece.length
    if group:
        yield group


def decoded(data: object) -> bytes | None:
    """Return a piece's content as it was answered; None where it is gone or no such text."""
    if data is None:
        return None
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except (binascii.Error, ValueError):
        return None


__all__ = ["Piece", "decoded", "grouped"]
