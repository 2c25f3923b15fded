"""A patch brought out piece by piece, however large: to a pipe, a terminal, a page, or as JSON."""

import codecs
import sys
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from patchyard.cli.outcome import is_open, send_nowhere
from patchyard.cli.screen import patch_shown
from patchyard.domain.errors import UsageError

T = TypeVar("T")

MOST_JSON_BYTES = 8 * 1024 * 1024  # of a patch in the object for programs


async def text_of(patch: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield a patch as text; what is not UTF-8 stands there as a backslash, x and its code."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    async for piece in patch:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


async def page_of(patch: AsyncIterator[bytes], start: int, end: int) -> tuple[str, bool]:
    """Return the characters `start` to `end` of a patch, and whether more follow."""
    at, kept = 0, ""
    async for text in text_of(patch):
        kept += text[max(0, start - at) : max(0, end + 1 - at)]
        at += len(text)
        if at > end:
            break
    return kept[: end - start], len(kept) > end - start


async def as_json(patch: AsyncIterator[bytes]) -> str:
    """Return a patch for the object that programs read. Raises UsageError for a large one."""
    kept: list[str] = []
    size = 0
    async for text in text_of(patch):
        kept.append(text)
        size += len(text)
        if size > MOST_JSON_BYTES:
            raise UsageError(
                f"the patch has more than {MOST_JSON_BYTES >> 20} MiB, too much for JSON",
                hint="leave out --format json and read the patch itself, or name some of its paths",
            )
    return "".join(kept)


async def bring_out(patch: AsyncIterator[bytes]) -> None:
    """Write a patch to standard output byte by byte, until its reader has gone.

    Raises OSError where standard output takes no more.
    """
    if not is_open(sys.stdout):
        return
    async for piece in patch:
        if not _takes(sys.stdout.buffer.write, piece):
            return
    _takes(lambda _: sys.stdout.flush(), b"")


async def show(patch: AsyncIterator[bytes]) -> None:
    """Write a patch to a terminal as people look at it, by lines; as `bring_out` does."""
    rest = b""
    async for piece in patch:
        lines, end, rest = (rest + piece).rpartition(b"\n")
        if end and not _takes(sys.stdout.write, f"{patch_shown(lines)}\n"):
            return
    if _takes(sys.stdout.write, patch_shown(rest)):
        _takes(lambda _: sys.stdout.flush(), "")


def _takes(put: Callable[[T], object], piece: T) -> bool:
    """Write to standard output; False where its reader has gone."""
    try:
        put(piece)
    except OSError as error:
        send_nowhere(sys.stdout)
        if isinstance(error, BrokenPipeError):
            return False
        error.filename = error.filename or "standard output"
        raise
    return True


__all__ = ["MOST_JSON_BYTES", "as_json", "bring_out", "page_of", "show", "text_of"]
