"""A few small files of a repository, as its base has them: a checkout as it is, or one commit.

Everything is read as data: no link is followed, nothing is opened that could block.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from patchyard.clients.git import Git
from patchyard.clients.reader import Reader
from patchyard.clients.treewriter import chunks_of
from patchyard.domain.errors import UsageError, WorkFailed

FILE_BYTES = 1_000_000  # a larger file is passed over
MOST_FILES = 500
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


class Glimpse(Protocol):
    """The top of a repository, seen from outside."""

    def read(self, path: str) -> bytes | None:
        """Return a small file, None when there is none (or something else)."""
        ...

    def names(self, folder: str = "") -> tuple[str, ...]:
        """Return the paths of what lies in `folder`, not deeper; none when there is no folder."""
        ...

    def kind(self, path: str) -> str:
        """Return what lies there: file, folder, link or special file; empty for nothing."""
        ...


@dataclass(frozen=True, kw_only=True)
class CheckoutGlimpse:
    """The checkout as it lies there now."""

    top: Path

    def read(self, path: str) -> bytes | None:
        """See Glimpse."""
        try:
            with Reader(self.top) as reader, reader.opened(path) as (descriptor, status):
                if status.st_size > FILE_BYTES:
                    return None
                return b"".join(chunks_of(descriptor, status.st_size))
        except (OSError, WorkFailed):  # not there, no file, or cut short just now
            return None

    def names(self, folder: str = "") -> tuple[str, ...]:
        """See Glimpse."""
        try:
            with Reader(self.top) as reader, os.scandir(reader.folder(folder)) as entries:
                found = [entry.name for entry in entries]
        except OSError:
            return ()
        return tuple(sorted(f"{folder}/{name}" if folder else name for name in found))

    def kind(self, path: str) -> str:
        """See Glimpse."""
        try:
            with Reader(self.top) as reader:
                found = reader.status(path)
        except OSError:
            return ""
        return "" if found is None else KINDS.get(stat.S_IFMT(found.st_mode), "special file")


@dataclass(frozen=True, kw_only=True)
class CommitGlimpse:
    """One commit of a repository."""

    top: Path
    commit: str  # object id
    git: Git

    def read(self, path: str) -> bytes | None:
        """See Glimpse."""
        listed = self.git.attempt("ls-tree", "-z", "-l", self.commit, "--", path, cwd=self.top)
        mode, _, blob, size = (*listed.out.partition(b"\t")[0].split(), *[b""] * 4)[:4]
        if listed.code != 0 or not mode.startswith(b"100") or int(size) > FILE_BYTES:
            return None
        done = self.git.attempt("cat-file", "blob", blob.decode("ascii"), cwd=self.top)
        return done.out if done.code == 0 else None

    def names(self, folder: str = "") -> tuple[str, ...]:
        """See Glimpse."""
        below = ["--", f"{folder}/"] if folder else []
        done = self.git.attempt("ls-tree", "-z", "--name-only", self.commit, *below, cwd=self.top)
        if done.code != 0:
            return ()
        return tuple(sorted(os.fsdecode(name) for name in done.out.split(b"\0") if name))

    def kind(self, path: str) -> str:
        """See Glimpse."""
        done = self.git.attempt("ls-tree", "-z", self.commit, "--", path, cwd=self.top)
        mode = done.out.partition(b" ")[0] if done.code == 0 else b""
        return KINDS.get(stat.S_IFMT(int(mode, 8)), "special file") if mode else ""


def glimpse(top: Path, ref: str | None) -> Glimpse:
    """Return the sight of a checkout, or of commit `ref` ("head" is HEAD). Raises UsageError."""
    if ref is None:
        return CheckoutGlimpse(top=top)
    git = Git(home=Path(os.devnull), config=Path(os.devnull), further={"safe.directory": "*"})
    name = "HEAD" if ref == "head" else ref
    done = git.attempt(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", cwd=top
    )
    if done.code != 0:
        raise UsageError(f"there is no commit {ref} in {top}", hint="git log shows those there are")
    return CommitGlimpse(top=top, commit=done.out.decode("ascii").strip(), git=git)


def files_under(sight: Glimpse, folder: str) -> dict[str, bytes]:
    """Return the small files under `folder`, deeper ones too, by path."""
    found: dict[str, bytes] = {}
    for path in _deep(sight, folder):
        data = sight.read(path)
        if data is not None:
            found[path] = data
        if len(found) > MOST_FILES:
            raise UsageError(f"{folder} holds more than {MOST_FILES} files")
    return found


def _deep(sight: Glimpse, folder: str, depth: int = 0) -> Iterator[str]:
    if depth > 8:
        return
    for path in sight.names(folder):
        yield path
        yield from _deep(sight, path, depth + 1)


__all__ = [
    "FILE_BYTES",
    "KINDS",
    "MOST_FILES",
    "CheckoutGlimpse",
    "CommitGlimpse",
    "Glimpse",
    "files_under",
    "glimpse",
]
