"""A patch brought out piece by piece, however large: to a pipe, a terminal, a page, or as JSON."""

import codecs
import sys
from collections.abc import AsyncIterator

from patchyard.cli.outcome import is_open, send_nowhere
from patchyard.cli.screen import patch_shown
from patchyard.domain.errors import UsageError

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
    """Write a patch to standard output byte by byte, until its reader has gone."""
    if not is_open(sys.stdout):
        return
    try:
        async for piece in patch:
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
    except BrokenPipeError:
        send_nowhere(sys.stdout)


async def show(patch: AsyncIterator[bytes]) -> None:
    """Write a patch to a terminal as people look at it, by lines."""
    rest = b""
    try:
        async for piece in patch:
            lines, end, rest = (rest + piece).rpartition(b"\n")
            if end:
                sys.stdout.write(f"{patch_shown(lines)}\n")
        sys.stdout.write(patch_shown(rest))
        sys.stdout.flush()
    except BrokenPipeError:
        send_nowhere(sys.stdout)


__all__ = ["MOST_JSON_BYTES", "as_json", "bring_out", "page_of", "show", "text_of"]
