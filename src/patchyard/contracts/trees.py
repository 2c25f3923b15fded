"""The seam to trusted git: trees of ours, read from the user's checkout and handed back to it."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.held import Entries
from patchyard.domain.links import TreeLinks


class Trees(Protocol):
    """Bases and change sets as tree objects in the engine's own store.

    No method writes into the user's repository or checkout. No git command of it reads a tree that
    an agent could have written.
    """

    async def snapshot(self, repository: Path, *, ref: str | None = None) -> Base:
        """Record the checkout as it is, or the commit `ref` ("head" is HEAD), as a base.

        Raises UsageError naming the place and the cure: not a repository, bare, empty, unreadable.
        """
        ...

    async def checkout(self, base: Base) -> Path:
        """Return our read-only checkout of the base's tree, built once per tree."""
        ...

    async def history(self, base: Base) -> Path:
        """Return a git directory that holds the history of the base's commit and nothing else."""
        ...

    def diff(
        self,
        base: Base,
        changeset: ChangeSet,
        *,
        paths: Sequence[str] = (),
        has_binary: bool = True,
    ) -> AsyncIterator[bytes]:
        """Yield the change set as a patch for `git apply --binary`; of `paths` only when given.

        In pieces of about a MiB, however large its files are. Without `has_binary` one line says
        that a binary file differs, or one larger than LARGEST_TEXT.
        """
        ...

    async def lost(self, base: Base, tree: str) -> Sequence[str]:
        """Return the paths of a tree whose content is not in the base's store any more.

        The empty path alone where the tree itself cannot be read. Nothing is mended.
        """
        ...

    async def key_base(self, base: Base, *, tree: str | None = None) -> Base:
        """Return a base of the dependency files (lock files, manifests) alone, without history.

        Those of the base, or of `tree`, a result over it.
        """
        ...

    async def hidden_by(
        self, base: Base, folder: Path, *, tree: str | None = None
    ) -> Sequence[str]:
        """Return the paths in `folder` that would hide files of the base if it lay over them.

        Files of `tree`, a result over the base, where it is given.
        """
        ...

    async def links(self, base: Base, changeset: ChangeSet) -> TreeLinks:
        """Return the symbolic links of the base and of the result over it."""
        ...

    async def names(self, base: Base) -> Collection[str]:
        """Return the paths of all files and links of the base."""
        ...

    async def folder(self, base: Base, folder: str) -> str:
        """Return the name of a folder's tree object: all that lies in it (empty: the base's own).

        Raises UsageError when there is no such folder.
        """
        ...

    async def archive(self, base: Base, folder: str, to: Path) -> None:
        """Write a tar of what lies in `folder` of the base (empty: all of it) to the file `to`.

        Raises UsageError when there is no such folder.
        """
        ...

    async def blob(self, base: Base, blob: str) -> bytes:
        """Return the content of one blob."""
        ...

    async def sizes(self, base: Base, blobs: Collection[str]) -> Mapping[str, int]:
        """Return the bytes of each of these blobs that is there."""
        ...

    def pieces(self, base: Base, blob: str) -> AsyncIterator[bytes]:
        """Yield the content of a blob, however large, in pieces of a MiB at most.

        Raises WorkFailed where it is not there.
        """
        ...

    async def file(self, base: Base, path: str, *, largest: int) -> bytes | None:
        """Return what the base has at a path; None for no file, a link, or more than `largest`."""
        ...

    async def grafted(
        self, base: Base, tree: str, entries: Entries, contents: Mapping[str, bytes]
    ) -> str:
        """Return `tree` with these entries instead of its own; those that are None are not in it.

        `contents` are new files.
        """
        ...

    async def mentions(self, base: Base, words: Sequence[str]) -> bool:
        """Whether some text file of the base holds one of `words`, in upper or lower case."""
        ...


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    """Return all pieces as one: of contents that are known to be small."""
    return b"".join([piece async for piece in pieces])


__all__ = ["Trees", "whole"]
