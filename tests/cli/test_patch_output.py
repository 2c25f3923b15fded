"""A patch that comes piece by piece: pages of it, its text, and how people see it."""

import errno
import io
import os
import sys
from collections.abc import AsyncIterator

import pytest

from patchyard.cli import patch_output
from patchyard.cli.patch_output import as_json, bring_out, page_of, show
from patchyard.domain.errors import UsageError

pytestmark = pytest.mark.anyio

TEXT = "+é\n-𝄞 and \\xff\n"
RAW = TEXT.replace("\\xff", "\udcff").encode("utf-8", "surrogateescape")


async def cut(size: int, raw: bytes = RAW) -> AsyncIterator[bytes]:
    for start in range(0, len(raw), size):
        yield raw[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
async def test_pages_are_those_of_the_whole_text_however_it_is_cut(size: int) -> None:
    assert await as_json(cut(size)) == TEXT
    for start in range(len(TEXT) + 2):
        for chars in (1, 4, 100):
            end = start + chars
            page = await page_of(cut(size), start, end)
            assert page == (TEXT[start:end], end < len(TEXT))


async def test_a_patch_too_large_for_json_is_refused_with_the_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patch_output, "MOST_JSON_BYTES", 5)
    with pytest.raises(UsageError) as caught:
        await as_json(cut(3))
    assert "leave out --format json" in caught.value.hint


@pytest.mark.parametrize("size", [1, 4, 100])
async def test_a_terminal_gets_whole_lines_with_what_is_no_text_escaped(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    await show(cut(size, RAW + b"\x1b[1m no end"))
    assert out.getvalue() == f"{TEXT}\\x1b[1m no end"


class Gone(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(text)

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_WRONLY)


async def test_a_reader_that_goes_ends_the_patch_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bytes] = []

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"a\n", b"b\n"):
            taken.append(piece)
            yield piece

    monkeypatch.setattr(sys, "stdout", Gone())
    await show(pieces())
    monkeypatch.setattr(sys, "stdout", None)
    await bring_out(pieces())
    assert taken == [b"a\n"]


async def test_an_output_that_takes_no_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(Gone):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, text)

    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(OSError, match="standard output"):
        await show(cut(100))
