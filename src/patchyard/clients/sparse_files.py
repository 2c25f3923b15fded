"""Files with holes: read without the zeros of holes, and written so that zeros take no room."""

import errno
import os
import sys
from collections.abc import Iterable, Iterator

from patchyard.toolbox.holes import write_with_holes

CHUNK_BYTES = 1024 * 1024
ZEROS = bytes(CHUNK_BYTES)


def pieces(source: int, *, until: int | None = None) -> Iterator[bytes]:
    """Yield what a file holds, to byte `until` or to its end, CHUNK_BYTES at most at a time.

    Of a hole zeros are yielded and nothing is read. Where the descriptor stands is left open.
    """
    end = sys.maxsize if until is None else until
    at = 0
    while at < end:
        data = min(_data_from(source, at), end)
        while at < data:
            zeros = ZEROS[: data - at]
            yield zeros
            at += len(zeros)
        piece = os.pread(source, min(CHUNK_BYTES, end - at), at)
        if not piece:
            return
        yield piece
        at += len(piece)


def fill(target: int, content: Iterable[bytes]) -> int:
    """Write all of a new file with holes in the place of zeros; return its size in bytes."""
    size = 0
    for piece in content:
        if piece != ZEROS[: len(piece)]:  # as a whole this is compared a hundred times faster
            write_with_holes(target, piece, size)
        size += len(piece)
    os.ftruncate(target, size)
    return size


def _data_from(source: int, at: int) -> int:
    """Return where the next data begins, the file's end where there is none."""
    try:
        return os.lseek(source, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return os.fstat(source).st_size
        if error.errno == errno.EINVAL:  # a file system without holes
            return at
        raise


__all__ = ["CHUNK_BYTES", "fill", "pieces"]
