"""How the C library keeps the memory of large blocks."""

import ctypes
from contextlib import suppress

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
LARGEST = 16 * 1024 * 1024  # bytes of a block that is kept for the next one
IDLE = 4 * LARGEST  # bytes that are kept at most


def keep_large_blocks() -> None:
    """Let this process use freed blocks of some megabytes again; without glibc nothing changes.

    A conversation grows, so that each request is larger than any block that was freed, and glibc
    asks the kernel for fresh pages each time: these cost more than all that is done with them.
    """
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, LARGEST)
        library.mallopt(M_TRIM_THRESHOLD, IDLE)


__all__ = ["keep_large_blocks"]
