"""The lines of files that are too large to be held, a part at a time."""

import codecs
from collections.abc import AsyncIterator

from patchyard.contracts.trees import Trees
from patchyard.domain.changeset import Base
from patchyard.domain.patch_lines import Lines

MOST_LINES = 100_000  # of one part
LONGEST_LINE = 2 * 1024 * 1024  # characters of a line that is kept whole; of a longer one parts are
PROBE_BYTES = 8000  # in which git looks for a zero byte


async def parts_of(trees: Trees, base: Base, blob: str) -> AsyncIterator[Lines]:
    """Yield the lines of a text with their numbers, a part at a time; none of other files.

    Text with zero bytes among its letters counts too, where all of its first piece can be read.
    """
    decoder: codecs.IncrementalDecoder | None = None
    number, rest = 1, ""
    async for piece in trees.pieces(base, blob):
        try:
            decoder = decoder or _decoder(piece)
            text = rest + decoder.decode(piece).replace("\0", "")
        except UnicodeDecodeError:
            return
        *whole, rest = text.split("\n")
        for start in range(0, len(whole), MOST_LINES):
            yield dict(enumerate(whole[start : start + MOST_LINES], number + start))
        number += len(whole)
        if len(rest) > LONGEST_LINE:
            yield {number: rest}
            rest = ""
    if rest:
        yield {number: rest}


def _decoder(piece: bytes) -> codecs.IncrementalDecoder:
    """Return what decodes a file that begins so: strict for one that git calls binary."""
    is_wide = piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    has_zeros = b"\0" in piece[:PROBE_BYTES]
    errors = "strict" if is_wide or has_zeros else "replace"
    return codecs.getincrementaldecoder("utf-16" if is_wide else "utf-8")(errors)


__all__ = ["LONGEST_LINE", "MOST_LINES", "PROBE_BYTES", "parts_of"]
