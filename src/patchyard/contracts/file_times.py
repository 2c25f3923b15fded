"""The seam to file times: which files are read or written meanwhile, seen from outside."""

from collections.abc import Collection, Mapping
from typing import Protocol

Marks = Mapping[str, tuple[int, int]]  # inode and change time in nanoseconds, by path


class FileTimes(Protocol):
    """Tells which files were read or written, by the times that the file system notes."""

    async def mark(self, root: str, paths: Collection[str]) -> Marks | None:
        """Prepare files below `root`, so that `read_since` can tell of them.

        Paths without a file or a link are left out. None where the file system notes no reads, or
        nothing can be tried, on a full disk for example.
        """
        ...

    async def note(self, root: str, paths: Collection[str]) -> Marks:
        """Note how files below `root` look, so that `written_since` can tell of them."""
        ...

    async def written_since(self, root: str, marks: Marks) -> frozenset[str]:
        """Return the marked paths that were written, replaced or taken away since."""
        ...

    async def read_since(self, root: str, marks: Marks) -> frozenset[str]:
        """Return the marked paths that were read, written or replaced since."""
        ...


__all__ = ["FileTimes", "Marks"]
