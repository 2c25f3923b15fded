"""Commits of ours and how they reach the user's repository: objects by a pipe, one ref, no hook."""

import io
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.foreign_git import ITS_OWN, ForeignGit, opened, stand_in
from patchyard.clients.git import Finished, Git, by_descriptor, text
from patchyard.clients.git_folders import require_readable
from patchyard.clients.placer import Placer
from patchyard.clients.scratch import scratch
from patchyard.clients.syncing import sync_file_system, sync_folder, sync_folders_above
from patchyard.clients.treewriter import TreeWriter
from patchyard.domain.changeset import Base
from patchyard.domain.errors import Conflict, StateRefusal, UsageError
from patchyard.workspaces.edits import Content, Edit
from patchyard.workspaces.git_places import require_no_link, require_own
from patchyard.workspaces.source import Source, unreadable
from patchyard.workspaces.store import parts

FALLBACK = "Patchyard <patchyard@localhost>"
#: What git has on the disk before it names it: an acknowledged hand-over outlives a power cut.
SYNCED = "objects,derived-metadata,index,reference"
BROKEN = "warning: ignoring broken ref "  # what git says of a ref that it cannot read
#: What git says where another one writes the same, or died over it.
LOCKED = re.compile(r"Unable to create '(?P<path>.+\.lock)': File exists")
REFTABLE = "reftable/tables.list"  # where refs lie in the newer format


def tree_with(git: Git, tree: str, edits: Sequence[Edit]) -> str:
    """Return the tree that `tree` names, with the edits made; `git` looks at our store."""
    tree = text(git.run("rev-parse", "--verify", tree))
    if not edits:
        return tree
    with TreeWriter(git, tree) as writer:
        for edit in edits:
            if edit.after is None:
                writer.delete(edit.path)
        for edit in edits:
            if edit.after is not None:
                writer.link(edit.path, *edit.after)
        return writer.finish()


def commit(git: Git, base: Base, tree: str, parents: Sequence[str], message: str) -> str:
    """Write a commit by the user's name into our store and return its id."""
    name, _, mail = (base.author or FALLBACK).partition(" <")
    who = {"NAME": name, "EMAIL": mail.rstrip(">")}
    extra = {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in who.items()
    }
    writing = git.at(git.git_dir, extra=extra)
    links = [part for parent in parents for part in ("-p", parent)]
    raw = message.encode("utf-8", "replace")
    return text(writing.run("commit-tree", *links, tree, stdin=raw))


def broken_refs(top: Path) -> dict[str, str]:
    """Return the refs of the checkout at `top` that git cannot read, and where they lie.

    Raises UsageError where git cannot read the repository.
    """
    git = ForeignGit(
        home=top,
        config=Path("/dev/null"),
        further={"safe.directory": str(top)},
        extra={"HOME": "/nonexistent"},
        known=ITS_OWN,
    )
    require_readable(git, top, home=os.environ.get("HOME", ""))
    done = git.attempt("for-each-ref", "--format=")
    if done.code != 0:
        raise unreadable(top, done.err)
    said = done.err.splitlines()
    refs = [line.removeprefix(BROKEN) for line in said if line.startswith(BROKEN)]
    return {ref: text(git.run("rev-parse", "--git-path", ref)) for ref in sorted(refs)}


class UserRepository:
    """The user's repository, written to by git as its owner, under a configuration of ours."""

    def __init__(self, source: Source, store: Git) -> None:
        """Take what is known of it; `store` looks at our store."""
        self._source = source
        self._store = store

    def _open(self) -> AbstractContextManager[ForeignGit]:
        return stand_in(self._source, self._store.home.parent, is_written=True, synced=SYNCED)

    def _attempt(self, *arguments: str, stdin: bytes = b"") -> Finished:
        with self._open() as git:
            return git.attempt(*arguments, stdin=stdin)

    def head(self) -> tuple[str, str]:
        """Return the current branch's full name (empty when detached) and the commit."""
        with self._open() as git:
            name = git.attempt("symbolic-ref", "--quiet", "HEAD")
            return text(name.out), text(git.run("rev-parse", "--verify", "HEAD^{commit}"))

    def value(self, ref: str) -> str:
        """Return the commit of a ref, empty when there is none.

        Raises StateRefusal for one that git cannot read, which is neither.
        """
        if not ref:
            return ""
        done = self._attempt("for-each-ref", "--format=%(objectname) %(refname)", ref)
        name = os.fsencode(ref)
        shown = name.decode("utf-8", "replace")
        if done.code != 0 or f"{BROKEN}{shown}" in done.err.splitlines():
            raise self._broken(ref, done.err)
        rows = (line.partition(b" ") for line in done.out.splitlines())
        return next((value.decode("ascii") for value, _, found in rows if found == name), "")

    def _broken(self, ref: str, said: str) -> StateRefusal:
        place = self._source.common_dir / ref
        log = self._source.common_dir / "logs" / ref
        top = shlex.quote(str(self._source.top))
        remove = f"rm {shlex.quote(str(place))}"
        known = f"`tail -1 {shlex.quote(str(log))}`" if log.exists() else "`git fsck --lost-found`"
        again = f"git -C {top} update-ref {shlex.quote(ref)} COMMIT"
        return StateRefusal(
            f"{ref} of {self._source.top} is broken: git cannot read it, as after a power cut",
            hint=f"{known} shows what it was; `{remove} && {again}` sets it to that again",
            details={"ref": ref, "stderr": said.strip()},
        )

    def has(self, commit: str, known: Sequence[str]) -> bool:
        """Whether every object of `commit` that `known` commits do not reach can be read."""
        asked = (commit, *(f"^{each}" for each in known))
        done = self._attempt("rev-list", "--objects", "--no-object-names", *asked)
        if done.code != 0:
            return False
        found = self._attempt("cat-file", "--batch-check", stdin=done.out)
        return found.code == 0 and not found.err and b" missing" not in found.out

    def check_name(self, branch: str) -> None:
        """Raise UsageError unless git takes the branch name."""
        if self._attempt("check-ref-format", "--branch", branch).code != 0:
            raise UsageError(f"{branch!r} is no branch name", hint="see git help check-ref-format")

    def send(self, new: str, known: Sequence[str]) -> None:
        """Copy the objects of commit `new` that `known` commits do not reach."""
        asked = "".join(f"{line}\n" for line in (new, *(f"^{each}" for each in known)))
        store = self._store.streaming()
        with scratch(store.home.parent, "send") as made:
            words = ("pack-objects", "--revs", "-q", "--no-reuse-delta", str(made / "sent"))
            name = text(store.run(*words, stdin=asked.encode()))
            with (made / f"sent-{name}.pack").open("rb") as packed, self._open() as git:
                git.streaming().run("unpack-objects", "-q", stdin=packed.fileno())

    def sync(self) -> None:
        """Have on the disk what was sent, before a ref names it."""
        sync_file_system(self._source.common_dir)

    def keep_large(self, contents: Mapping[str, str]) -> None:
        """Put LFS content (SHA-256 to blob of ours) where git-lfs keeps it.

        Raises StateRefusal where that is behind a link.
        """
        if not contents:
            return
        with opened(self._source.common_dir) as held, BlobReader(self._store) as blobs:
            placer = Placer(by_descriptor(held), inherits=os.geteuid() == 0)
            for digest, blob in contents.items():
                path = f"lfs/objects/{digest[:2]}/{digest[2:4]}/{digest}"
                if not (by_descriptor(held) / path).exists():
                    require_no_link(self._source.common_dir, path)
                    placer.put(path, "100644", blobs.chunks(blob))

    def require_own(self, ref: str) -> None:
        """Raise StateRefusal where git would write through a link; see workspaces.git_places."""
        require_own(self._source, ref)

    def move(self, ref: str, new: str, old: str, *, reason: str) -> None:
        """Set a ref from `old` (empty: not there) to `new` (empty: delete). Raises Conflict."""
        if self.value(ref) == new:  # a life that was killed may not have synced it
            self._sync_names(ref)
            return
        self.require_own(ref)
        zeros = "0" * max(len(new), len(old))
        if new:
            done = self._attempt("update-ref", "-m", reason, ref, new, old or zeros)
        else:
            done = self._attempt("update-ref", "-m", reason, "-d", ref, old)
        if done.code != 0:
            _require_unlocked(ref, done)
            raise Conflict(
                f"{ref} was changed meanwhile or cannot be made; it was left as it is",
                hint="look at it, or choose another name",
                details={"stderr": done.err},
            )
        self._sync_names(ref)

    def _sync_names(self, ref: str) -> None:
        sync_folders_above([ref, REFTABLE], self._source.common_dir)

    def is_checked_out(self, ref: str) -> bool:
        """Whether a work tree of this repository stands on the ref."""
        common = self._source.common_dir
        with self._open() as git:
            for place in (common, *common.glob("worktrees/*")):
                head = replace(git, git_dir=place).attempt("symbolic-ref", "--quiet", "HEAD")
                if text(head.out) == ref:
                    return True
        return False

    def index(self, paths: Sequence[str]) -> dict[str, Content]:
        """Return what the user's index has at these paths. Raises Conflict in a merge."""
        if not paths:
            return {}
        asked = {path: path for path in paths}  # not handed to git, whose command line has an end
        found, before = dict[str, Content](), ("", "")
        with self._open() as git:
            listed = git.run("ls-files", "--stage", "-z")
        for part in parts(listed):
            head, _, path = part.partition("\t")
            mode, blob, stage = head.split(" ")
            known = asked.get(path)
            if known is None:
                continue
            if stage != "0":
                raise Conflict(f"a merge of {path} is not finished", hint="git merge --abort")
            if before != (mode, blob):
                before = (sys.intern(mode), blob)
            found[known] = before
        return found

    def set_index(self, contents: Mapping[str, Content | None]) -> None:
        """Set what the user's index has at these paths; it is on the disk then, also for none."""
        zeros = "0" * (40 if self._source.object_format == "sha1" else 64)
        rows = io.BytesIO()  # of 140,000 files: as a list of texts they would be three times this
        for path, content in contents.items():
            mode, blob = content or ("0", zeros)
            rows.write(os.fsencode(f"{mode} {blob}\t{path}\0"))
        if contents:
            self._write_index(rows.getvalue())
        sync_folder(self._source.git_dir)

    def _write_index(self, rows: bytes) -> None:
        top = self._source.top
        with self._open() as git:  # git reads what may differ again: by no filter of the user's
            done = replace(git, work_tree=top).attempt(
                "update-index", "-z", "--index-info", stdin=rows, cwd=top
            )
        if done.code != 0:
            _require_unlocked("the index", done)
            raise Conflict(
                f"the index cannot be written: {done.err.strip()}",
                hint="look at `git status`, then apply again",
            )


def _require_unlocked(what: str, done: Finished) -> None:
    """Raise Conflict where git failed over a lock; one that outlived its git names the cure."""
    found = LOCKED.search(done.err)
    if found is None:
        return
    lock = found["path"]
    raise Conflict(
        f"{what} is held by another git, or by one that died, as in a power cut: {lock} is there",
        hint=f"wait for that git; if none runs there, `rm {shlex.quote(lock)}` lets go of it",
        details={"lock": lock, "stderr": done.err},
    )


__all__ = ["FALLBACK", "UserRepository", "broken_refs", "commit", "tree_with"]
