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


def test_what_zeros_reached_beyond_their_piece_is_not_asked_for() -> None:
    reached: dict[str, int] = {}
    asked = []
    files = [("hole", 1000), ("small", 3)]
    for group in grouped(files, most_bytes=10, most_pieces=5, reached=reached):
        asked.append(group)
        reached["hole"] = 995  # a hole to there, then data
    assert asked == [[("hole", 0, 10)], [("hole", 995, 5), ("small", 0, 3)]]
    reached = {}
    for group in grouped(files, most_bytes=10, most_pieces=5, reached=reached):
        reached[group[0].path] = 1000
    assert group == [("small", 0, 3)]


@pytest.mark.parametrize(
    ("data", "content"),
    [
        ("", b""),
        ("aGk=", b"hi"),
        (None, None),
        ("not base64", None),
        ("ä", None),
        (7, 7),
        (0, None),
        (-1, None),
        (True, None),
        (1.5, None),
    ],
)
def test_what_is_no_content_is_none(data: object, content: bytes | int | None) -> None:
    assert decoded(data) == content
