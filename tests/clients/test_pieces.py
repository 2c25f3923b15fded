"""Pieces of files: every byte is asked for once, in order, within the bounds."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.clients.pieces import decoded, grouped

FILES = st.lists(st.integers(0, 300), max_size=12).map(
    lambda sizes: [(f"file-{number}", size) for number, size in enumerate(sizes)]
)


@given(FILES, st.integers(1, 100), st.integers(1, 5))
def test_every_byte_is_asked_for_once_and_no_group_is_above_a_bound(
    files: list[tuple[str, int]], most_bytes: int, most_pieces: int
) -> None:
    groups = list(grouped(files, most_bytes=most_bytes, most_pieces=most_pieces))
    for group in groups:
        assert 0 < len(group) <= most_pieces
        assert sum(piece.length for piece in group) <= most_bytes
    pieces = [piece for group in groups for piece in group]
    for path, size in files:
        mine = [piece for piece in pieces if piece.path == path]
        assert mine[0].offset == 0
        assert mine[-1].offset + mine[-1].length == size
        assert all(one.offset + one.length == other.offset for one, other in pairwise(mine))
    assert [path for path, _ in files] == list(dict.fromkeys(piece.path for piece in pieces))


@pytest.mark.parametrize(
    ("data", "content"),
    [("", b""), ("aGk=", b"hi"), (None, None), ("not base64", None), ("ä", None), (7, None)],
)
def test_what_is_no_content_is_none(data: object, content: bytes | None) -> None:
    assert decoded(data) == content
