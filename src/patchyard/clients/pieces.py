"""Pieces of files as a far toolbox is asked for them: so many at a time as fit in one answer."""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

NOTHING: Mapping[str, int] = MappingProxyType({})


class Piece(NamedTuple):
    """A part of a file: where it begins and how long it is, in bytes."""

    path: str
    offset: int
    length: int

    def is_answered_by(self, data: bytes | int) -> bool:
        """Whether it is as long as was asked for; zeros may go on to the next data."""
        return data >= self.length if isinstance(data, int) else len(data) == self.length


def grouped(
    files: Sequence[tuple[str, int]],
    *,
    most_bytes: int,
    most_pieces: int,
    reached: Mapping[str, int] = NOTHING,
) -> Iterator[list[Piece]]:
    """Yield pieces to ask for together, a file's in their order; an empty file is one piece.

    `files` has a path and a size in bytes each. No group is above either bound. What an answer
    brought beyond its piece is not asked for: `reached` says how far a file has come, and is looked
    at after each group.
    """
    group: list[Piece] = []
    size = 0
    for path, total in files:
        offset, is_begun = 0, False
        while offset < total or not is_begun:
            length = min(most_bytes, total - offset)
            if group and (size + length > most_bytes or len(group) >= most_pieces):
                yield group
                group, size = [], 0
                offset = max(offset, reached.get(path, 0))
                continue
            group.append(Piece(path, offset, length))
            size += length
            offset += length
            is_begun = True
    if group:
        yield group


def ends_of_zeros(group: Sequence[Piece], contents: Sequence[bytes | int | None]) -> dict[str, int]:
    """Return how far each file has come where zeros were the answer; see `grouped`."""
    answered = zip(group, contents, strict=True)
    return {each.path: each.offset + zeros for each, zeros in answered if isinstance(zeros, int)}


def decoded(data: object) -> bytes | int | None:
    """Return a piece's content as it was answered, or how many zeros there are.

    None where it is gone or no such answer.
    """
    if type(data) is int:
        return data if data > 0 else None
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except (binascii.Error, ValueError):
        return None


__all__ = ["Piece", "decoded", "ends_of_zeros", "grouped"]
