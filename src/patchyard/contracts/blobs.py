"""The seam to kept contents: files by their names, one space a plan. All of it blocks.

A content's name is made of its SHA-256; see `clients.sparse_files.ContentName`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class NoRoom(Exception):
    """A content takes more than the room that is left in its space; nothing of it is kept."""


def unwatched() -> None:
    """Let a content be kept to its end."""


class BlobWriter(Protocol):
    """Takes contents in; they are on disk when the block that gave it has ended."""

    def keep(
        self,
        source: int,
        *,
        until: int | None = None,
        like: str = "",
        watch: Callable[[], object] = unwatched,
    ) -> str:
        """Store what the file `source`, a descriptor, holds, to byte `until` or to its end.

        Return its name; a content that has the name `like` in another space gets it here too. One
        that others write has no end. `watch` is called before each MiB; what it raises ends it.
        Raises NoRoom.
        """
        ...

    @property
    def stored(self) -> int:
        """Bytes that were new so far; holes take none."""
        ...

    @property
    def room(self) -> int:
        """Bytes that may still be stored: what an agent writes must not fill the disk."""
        ...


class Blobs(Protocol):
    """The contents that one plan's checkpoints name."""

    def writing(self) -> AbstractContextManager[BlobWriter]:
        """Take contents in. Raises Unavailable on a full disk."""
        ...

    def require(self, digest: str) -> None:
        """Raise JournalBroken when a content is missing, unreadable, or does not match its digest.

        `how` in its details says which: missing, unreadable or damaged.
        """
        ...

    def copy(self, digest: str, target: int) -> None:
        """Write a content to the descriptor `target` of an empty file; holes stay holes.

        Raises JournalBroken when it is missing or does not match its digest.
        """
        ...


class BlobSpaces(Protocol):
    """All spaces of one installation."""

    def of(self, plan_id: str) -> Blobs:
        """Return the space of a plan; made when something is first stored."""
        ...

    def remove(self, plan_id: str) -> None:
        """Delete the space of a plan. Idempotent."""
        ...


__all__ = ["BlobSpaces", "BlobWriter", "Blobs", "NoRoom", "unwatched"]
