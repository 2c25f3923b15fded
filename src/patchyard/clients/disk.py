"""What the search for toolchains asks of a disk: a handful of facts about paths."""

import os
import stat
from typing import Protocol

from patchyard.clients.git_files import content_of

TEXT_BYTES = 65_536


class Disk(Protocol):
    """Facts about paths; every answer about a missing path is empty, none raises."""

    def resolve(self, path: str) -> str:
        """Return `path` without symbolic links, as far as it exists."""
        ...

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether a directory is there."""
        ...

    def is_trusted(self, path: str, owners: frozenset[int]) -> bool:
        """Whether one of `owners` owns it and not everybody may write to it."""
        ...

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a directory."""
        ...

    def links(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a directory that are symbolic links."""
        ...

    def text(self, path: str) -> str:
        """Return a small text file."""
        ...


class LocalDisk:
    """The disk of this machine."""

    def resolve(self, path: str) -> str:
        """Return `path` without symbolic links."""
        return os.path.realpath(path)

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        return os.path.exists(path)  # noqa: PTH110 - hundreds of times a start

    def is_directory(self, path: str) -> bool:
        """Whether a directory is there."""
        return os.path.isdir(path)  # noqa: PTH112 - hundreds of times a start

    def is_trusted(self, path: str, owners: frozenset[int]) -> bool:
        """Whether one of `owners` owns it and not everybody may write to it."""
        try:
            facts = os.stat(path)  # noqa: PTH116 - hundreds of times a start
        except OSError:
            return False
        return facts.st_uid in owners and not facts.st_mode & stat.S_IWOTH

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a directory."""
        try:
            with os.scandir(path) as entries:
                return tuple(sorted(entry.name for entry in entries))
        except OSError:
            return ()

    def links(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a directory that are symbolic links."""
        try:
            with os.scandir(path) as entries:
                return tuple(sorted(entry.name for entry in entries if entry.is_symlink()))
        except OSError:
            return ()

    def text(self, path: str) -> str:
        """Return the first TEXT_BYTES of a plain text file, nothing for what is none."""
        return content_of(path, TEXT_BYTES).decode("utf-8", "replace")


__all__ = ["Disk", "LocalDisk"]
