"""Files with holes: read without the zeros of holes, and written so that zeros take no room."""

import errno
import os
from collections.abc import Iterator

from patchyard.toolbox.holes import write_with_holes

CHUNK_BYTES = 1024 * 1024
ZEROS = bytes(CHUNK_BYTES)


def pieces(source: int) -> Iterator[bytes]:
    """Yield what a file holds from where its descriptor stands to its end, CHUNK_BYTES at most.

    Of a hole zeros are yielded and nothing is read.
    """
    at = os.lseek(source, 0, os.SEEK_CUR)
    while True:
        data = _data_from(source, at)
        while at < data:
            zeros = ZEROS[: data - at]
            yield zeros
            at += len(zeros)
        piece = os.pread(source, CHUNK_BYTES, at)
        if not piece:
            return
        yield piece
        at += len(piece)


def write(target: int, piece: bytes, at: int) -> None:
    """Write a piece of a new file; who writes the last one sets the file's size."""
    if piece != ZEROS[: len(piece)]:  # as a whole this is compared a hundred times faster
        write_with_holes(target, piece, at)


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


__all__ = ["CHUNK_BYTES", "pieces", "write"]
