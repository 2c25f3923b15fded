"""How the C library keeps memory for this process."""

import ctypes
from contextlib import suppress

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
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


def keep_one_heap() -> None:
    """Let all threads take memory from one heap; without glibc nothing changes.

    glibc gives threads heaps of their own, eight for each processor, and what is freed in one is
    not used by another: an engine that looks at many files in threads holds twice what it uses.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


__all__ = ["keep_large_blocks", "keep_one_heap"]
