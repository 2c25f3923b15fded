"""The seam to file times: which files are read or written meanwhile, seen from outside."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol


class Lookout(Protocol):
    """What the kernel tells of files or folders meanwhile."""

    is_whole: bool  # whether it has room for each of them

    def told(self) -> frozenset[str]:
        """Return the paths that it told of; all of them where what it told got lost."""
        ...

    def close(self) -> None:
        """End it. Idempotent."""
        ...


@dataclass(frozen=True, kw_only=True)
class Marks:
    """How files looked, and what tells of them meanwhile; to be closed."""

    files: Mapping[str, tuple[int, int]]  # inode and change time in nanoseconds, by path
    lookout: Lookout

    def close(self) -> None:
        """End what tells of them. Idempotent."""
        self.lookout.close()


class FileTimes(Protocol):
    """Tells which files were read or written, by the times that the file system notes.

    And by what the kernel tells: of copies that it makes itself, and of folders that are moved.
    Where a lookout is not whole, that is not seen.
    """

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
        """Return the marked paths that were written, replaced or taken away since.

        One below a folder that was moved counts, also where the folder was put back.
        """
        ...

    async def read_since(self, root: str, marks: Marks) -> frozenset[str]:
        """Return the marked paths that were read, written or replaced since."""
        ...


__all__ = ["FileTimes", "Lookout", "Marks"]
