"""A few small files of a repository, as its base has them: a checkout as it is, or one commit.

Everything is read as data: no link is followed, nothing is opened that could block.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.foreign_git import ITS_OWN, ForeignGit
from patchyard.clients.git_folders import require_readable
from patchyard.clients.reader import Reader, Status
from patchyard.clients.treewriter import ChangedMeanwhile, chunks_of
from patchyard.domain.errors import UsageError, WorkFailed

FILE_BYTES = 1_000_000  # a larger file is passed over
CLOSED = "closed folder"
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of a folder."""

    path: str
    kind: str  # as `Glimpse.kind` has it, or `closed folder`
    size: int = 0  # bytes, of a file
    blob: str = ""  # object id, in a commit


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

    def entries(self, path: str) -> Iterator[Entry]:
        """Yield what lies at `path` and, where that is a folder, all below it, at any depth."""
        ...

    def content(self, entry: Entry) -> bytes | None:
        """Return all of a file, or what a link says; None when it cannot be read."""
        ...

    def digest(self, entry: Entry) -> bytes | None:
        """Return the SHA-256 of a file, read by pieces; None when it cannot be read."""
        ...


@dataclass(frozen=True, kw_only=True)
class CheckoutGlimpse:
    """The checkout as it lies there now. Each file is read once: what is hashed is what counts."""

    top: Path
    _read: dict[str, bytes | None] = field(default_factory=dict, repr=False, compare=False)

    def read(self, path: str) -> bytes | None:
        """See Glimpse."""
        if path not in self._read:
            self._read[path] = self._content(path)
        return self._read[path]

    def _content(self, path: str) -> bytes | None:
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
        return "" if found is None else _kind_of(found.st_mode)

    def entries(self, path: str) -> Iterator[Entry]:
        """See Glimpse."""
        try:
            with Reader(self.top) as reader:
                found = reader.status(path)
                if found is not None:
                    yield from _walk(reader, path, found)
        except OSError:
            yield Entry(path=path, kind=CLOSED)

    def content(self, entry: Entry) -> bytes | None:
        """See Glimpse."""
        try:
            if entry.kind == "link":
                with Reader(self.top) as reader:
                    return reader.target(entry.path)
            return b"".join(self._chunks(entry))
        except (OSError, WorkFailed):
            return None

    def digest(self, entry: Entry) -> bytes | None:
        """See Glimpse."""
        try:
            return _sha256(self._chunks(entry))
        except (OSError, WorkFailed):
            return None

    def _chunks(self, entry: Entry) -> Iterator[bytes]:
        with Reader(self.top) as reader, reader.opened(entry.path) as (descriptor, status):
            if status.st_size != entry.size:
                raise ChangedMeanwhile  # it grew, and is not what was listed
            yield from chunks_of(descriptor, entry.size)


def _walk(reader: Reader, path: str, status: Status | os.stat_result) -> Iterator[Entry]:
    waiting = [(path, status)]
    while waiting:
        at, found = waiting.pop()
        kind = _kind_of(found.st_mode)
        if kind != "folder":
            yield Entry(path=at, kind=kind, size=found.st_size)
            continue
        try:
            inside = reader.names(at)
        except OSError:  # closed to us, or exchanged just now
            yield Entry(path=at, kind=CLOSED)
            continue
        yield Entry(path=at, kind=kind)
        waiting += [(f"{at}/{name}", each) for name, each in inside]


def _sha256(chunks: Iterable[bytes]) -> bytes:
    made = hashlib.sha256()
    for chunk in chunks:
        made.update(chunk)
    return made.digest()


def _kind_of(mode: int) -> str:
    return KINDS.get(stat.S_IFMT(mode), "special file")


@dataclass(frozen=True, kw_only=True)
class CommitGlimpse:
    """One commit of a repository."""

    top: Path
    commit: str  # object id
    git: ForeignGit

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
        return _kind_of(int(mode, 8)) if mode else ""

    def entries(self, path: str) -> Iterator[Entry]:
        """See Glimpse; a commit holds no folder that is empty, and names none."""
        words = ("ls-tree", "-r", "-z", "-l", self.commit, "--", path)
        done = self.git.attempt(*words, cwd=self.top)
        if done.code != 0:
            yield Entry(path=path, kind=CLOSED)
        for line in filter(None, done.out.split(b"\0")):
            facts, _, name = line.partition(b"\t")
            mode, _, blob, size = facts.split()
            yield Entry(
                path=os.fsdecode(name),
                kind=_kind_of(int(mode, 8)),
                size=int(size) if size.isdigit() else 0,
                blob=blob.decode("ascii"),
            )

    def digest(self, entry: Entry) -> bytes | None:
        """See Glimpse."""
        try:
            with BlobReader(self.git, cwd=self.top) as blobs:
                return _sha256(blobs.chunks(entry.blob))
        except WorkFailed:
            return None

    def content(self, entry: Entry) -> bytes | None:
        """See Glimpse."""
        done = self.git.attempt("cat-file", "blob", entry.blob, cwd=self.top)
        return done.out if done.code == 0 else None


def no_commit_yet(top: Path) -> UsageError:
    """Return the refusal of a repository whose branch has no commit."""
    return UsageError(
        f"{top} has no commit yet",
        hint=f"git -C {top} add -A && git -C {top} commit -m 'First commit'",
    )


def glimpse(top: Path, ref: str | None) -> Glimpse:
    """Return the sight of a checkout, or of commit `ref` ("head" is HEAD). Raises UsageError."""
    if ref is None:
        return CheckoutGlimpse(top=top)
    git = ForeignGit(
        home=Path(os.devnull),
        config=Path(os.devnull),
        further={"safe.directory": "*"},
        known=ITS_OWN,
    )
    name = "HEAD" if ref == "head" else ref
    require_readable(git, top, home=os.environ.get("HOME", ""), ref=name)
    done = git.attempt(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", cwd=top
    )
    if done.code != 0 and name == "HEAD":
        raise no_commit_yet(top)
    if done.code != 0:
        raise UsageError(f"there is no commit {ref} in {top}", hint="git log shows those there are")
    return CommitGlimpse(top=top, commit=done.out.decode("ascii").strip(), git=git)


__all__ = [
    "CLOSED",
    "FILE_BYTES",
    "KINDS",
    "CheckoutGlimpse",
    "CommitGlimpse",
    "Entry",
    "Glimpse",
    "glimpse",
    "no_commit_yet",
]
