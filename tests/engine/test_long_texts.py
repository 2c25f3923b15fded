"""Lines of files that are too large to be held: a part at a time, and none is lost."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from patchyard.contracts.trees import Trees
from patchyard.domain.changeset import Base
from patchyard.domain.patch_lines import Lines
from patchyard.engine import long_texts
from patchyard.engine.long_texts import parts_of

pytestmark = pytest.mark.anyio
BASE = cast("Base", None)


class Pieces:
    """Of contracts.trees.Trees the one method that is asked."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def pieces(self, _base: Base, _blob: str) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def parts(*pieces: bytes) -> list[Lines]:
    trees: Any = Pieces(*pieces)
    return [part async for part in parts_of(cast("Trees", trees), BASE, "b")]


async def whole(*pieces: bytes) -> dict[int, str]:
    return {number: text for part in await parts(*pieces) for number, text in part.items()}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "code"),
    [("a\nbé\n\nlast", "utf-8"), ("a\r\n𝄞\n", "utf-8"), ("a\nbé\n𝄞", "utf-16")],
)
async def test_lines_are_those_of_the_whole_text_however_it_is_cut(
    text: str, code: str, size: int
) -> None:
    content = text.encode(code)
    size = max(size, 4) if code == "utf-16" else size  # the first piece has its mark
    cut = [content[start : start + size] for start in range(0, len(content), size)]
    wanted = {number: line for number, line in enumerate(text.split("\n"), 1) if line}
    found = await whole(*cut)
    assert {number: line for number, line in found.items() if line} == wanted


async def test_text_with_zeros_counts_and_other_binaries_do_not() -> None:
    assert await whole(b"key = 1\0\nb") == {1: "key = 1", 2: "b"}
    assert await whole(b"\0\xff\xfe\n") == {}
    assert await whole(b"caf\xe9\nb") == {1: "caf\ufffd", 2: "b"}


async def test_a_part_has_so_many_lines_and_a_long_line_comes_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(long_texts, "MOST_LINES", 3)
    monkeypatch.setattr(long_texts, "LONGEST_LINE", 4)
    assert [len(part) for part in await parts(b"a\n" * 7)] == [3, 3, 1]
    assert await parts(b"aaaaa", b"bbb\n", b"c") == [{1: "aaaaa"}, {1: "bbb"}, {2: "c"}]
