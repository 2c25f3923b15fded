"""Turns what a walk saw into a tree of ours and a change set.

Contents go by descriptor and unfiltered into the store; the written tree is compared with the walk.
"""

import errno
import hashlib
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchyard.clients.git import Git
from patchyard.clients.reader import Reader, git_mode
from patchyard.clients.sparse_files import (
    CHUNK_BYTES,
    ContentName,
    in_pieces,
    parts_of,
    room_of_file,
)
from patchyard.clients.treewriter import TreeWriter, chunks_of, hash_blob, whole_chunks
from patchyard.contracts.workspace import CallWindow, LookStopped, never
from patchyard.domain.bare_repositories import bare_repositories
from patchyard.domain.changeset import Base, Change, ChangeSet, Finding, FindingKind
from patchyard.domain.errors import WorkFailed
from patchyard.domain.links import LINK, TreeLinks, leaving
from patchyard.domain.manifests import changed_parts, manifest_names
from patchyard.domain.names import refused_because
from patchyard.domain.protected import protection
from patchyard.domain.tree_names import TreeNames
from patchyard.workspaces.attribution import attribute
from patchyard.workspaces.comparison import compare
from patchyard.workspaces.put_entries import PutEntries
from patchyard.workspaces.sight import Sight, Touched, Tracked
from patchyard.workspaces.treelinks import links_of

SMALL_BYTES = 4 * 1024 * 1024
MANIFEST_BYTES = 1_000_000  # a larger manifest is looked at by a person
OWN_XATTRS = ("trusted.overlay.", "user.overlay.", "security.selinux", "system.posix_acl_")


@dataclass(kw_only=True)
class Capture:
    """One capture under way."""

    git: Git
    base: Base
    tracked: Tracked
    reader: Reader
    lower: Sequence[Path] = ()  # setup layers, topmost first
    max_file_bytes: int = 4 * 1024**3
    is_stopped: Callable[[], bool] = never
    holed: dict[str, str] = field(default_factory=dict)  # blobs of files with holes, by content
    written: PutEntries = field(default_factory=PutEntries)

    def finish(self, sight: Sight, windows: Sequence[CallWindow]) -> ChangeSet:
        """Write the tree and return the change set.

        Raises WorkFailed if git took another tree, LookStopped.
        """
        tree = self._write(sight)
        changes = compare(self.git, self.base.tree, tree) if tree != self.base.tree else []
        self._verify(changes)
        attribute(changes, windows, self.written)
        self.written = PutEntries()  # of no more use, and large
        links = links_of(self.git, self.tracked.links, changes, top=self.base.repository)
        names = TreeNames(changes, links)
        findings = sorted(
            [
                *sight.findings,
                *protection(names),
                *bare_repositories(changes, self.tracked.parts_of_git),
                *_leaving(changes, links),
                *self._scripts(changes, names),
            ],
            key=lambda each: (each.path, each.kind),
        )
        return ChangeSet(
            id=_identity(self.base.tree, tree, findings),
            base_tree=self.base.tree,
            tree=tree,
            changes=tuple(changes),
            findings=tuple(findings),
        )

    def _write(self, sight: Sight) -> str:
        changed = [each for each in self._candidates(sight) if self._differs(each, sight)]
        if not changed and not sight.gone:
            return self.base.tree
        with TreeWriter(self.git, self.base.tree) as writer:
            for path, at in sorted(sight.gone.items()):
                writer.delete(path)
                self.written.take_away(path, at=at)
            changed.reverse()
            while changed:
                self._put(writer, changed.pop())
            return writer.finish()

    def _candidates(self, sight: Sight) -> Iterator[Touched]:
        self._leave_submodules(sight)
        for path in sorted(sight.touched):
            each = sight.touched.pop(path)
            is_link = stat.S_ISLNK(each.mode)
            reason = refused_because(path, is_symlink=is_link)
            if reason:
                sight.find(FindingKind.REFUSED_NAME, path, f"git refuses {reason}")
            elif each.size > self.max_file_bytes:
                size = each.size
                sight.find(FindingKind.TOO_LARGE, path, f"{size} bytes; left out")
            else:
                yield each

    def _leave_submodules(self, sight: Sight) -> None:
        """Leave out what lies in the folder of a submodule: git takes it for another repository."""
        for path in sorted(sight.touched):
            if submodule := self.tracked.submodule_above(path):
                del sight.touched[path]
                sight.gone.pop(submodule, None)
                message = f"lies in the folder of the submodule {submodule}; left out"
                sight.find(FindingKind.NESTED_GIT, path, message)

    def _differs(self, each: Touched, sight: Sight) -> bool:
        """Whether the candidate is to be written; notes what is odd about it."""
        self._watch()
        try:
            mode, blob = self._identify(each, sight)
        except OSError as error:
            if error.errno not in {errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP}:
                raise
            sight.find(FindingKind.UNREADABLE, each.path, error.strerror or "cannot be read")
            return False
        if any(self._is_below(folder, each, mode, blob) for folder in self.lower):
            return False
        return self.tracked.entries.get(each.path) != (mode, blob)

    def _identify(self, each: Touched, sight: Sight) -> tuple[str, str]:
        mode = git_mode(each.mode)
        if stat.S_ISLNK(each.mode):
            target = self.reader.target(each.path)
            return mode, hash_blob(len(target), [target], like=self.base.tree)
        with self.reader.opened(each.path) as (descriptor, status):
            _odd(descriptor, status, each.path, sight)
            known = self.tracked.entries.get(each.path)
            if known is None and not self.lower:
                return mode, ""
            size = status.st_size
            return mode, hash_blob(size, self._chunks(descriptor, size), like=self.base.tree)

    def _is_below(self, folder: Path, each: Touched, mode: str, blob: str) -> bool:
        """Whether a setup layer holds just this, so that the actor changed nothing."""
        with Reader(folder) as layer:
            status = layer.status(each.path)
            if status is None or git_mode(status.st_mode) != mode:
                return False
            if stat.S_ISLNK(status.st_mode):
                target = layer.target(each.path)
                return hash_blob(len(target), [target], like=blob) == blob
            if not stat.S_ISREG(status.st_mode) or status.st_size != each.size:
                return False
            with layer.opened(each.path) as (descriptor, now):
                chunks = self._chunks(descriptor, now.st_size)
                return hash_blob(now.st_size, chunks, like=blob) == blob

    def _put(self, writer: TreeWriter, each: Touched) -> None:
        mode = git_mode(each.mode)
        if stat.S_ISLNK(each.mode):
            target = self.reader.target(each.path)
            blob = writer.put(each.path, mode, len(target), [target])
        else:
            with self.reader.opened(each.path) as (descriptor, status):
                mode = git_mode(status.st_mode)
                blob = self._put_file(writer, each.path, mode, descriptor, status)
        self.written.put(each.path, mode, blob, at=each.changed)

    def _put_file(
        self, writer: TreeWriter, path: str, mode: str, descriptor: int, status: os.stat_result
    ) -> str:
        """Put a file's content; one that is mostly holes is given to git once for all its twins."""
        size = status.st_size
        if size <= CHUNK_BYTES or room_of_file(status) >= size:
            return writer.put(path, mode, size, self._chunks(descriptor, size))
        name = ContentName()
        deque(name.passing(parts_of(descriptor, until=size), self._watch), maxlen=0)
        known = self.holed.get(str(name))
        if known is not None:
            writer.link(path, mode, known)
            return known
        passing = ContentName()
        content = passing.passing(parts_of(descriptor, until=size), self._watch)
        blob = writer.put(path, mode, size, whole_chunks(in_pieces(content), size))
        self.holed[str(passing)] = blob  # of what git was given, should it change meanwhile
        return blob

    def _chunks(self, descriptor: int, size: int) -> Iterator[bytes]:
        """Yield a file's bytes. Raises LookStopped, WorkFailed when it shrank."""
        for chunk in chunks_of(descriptor, size):
            self._watch()
            yield chunk

    def _watch(self) -> None:
        if self.is_stopped():
            raise LookStopped

    def _verify(self, found: Sequence[Change]) -> None:
        """Compare what git says it has with what the walk put in."""
        odd = self.written.odd(found, self.tracked.entries)
        if odd:
            raise WorkFailed(
                f"the tree that was written is not the one that was seen: {sorted(odd)[:5]}",
                hint="`git fsck` says whether the base is damaged; else please report this defect",
                details={"paths": sorted(odd)[:50]},
            )

    def _scripts(self, changes: Sequence[Change], names: TreeNames) -> Iterator[Finding]:
        manifests = names.matching(manifest_names())
        for change in changes:
            match = manifests.get(change.path)
            if change.blob is None or match is None:
                continue
            is_renamed = change.old_path is not None and change.old_path not in manifests
            before = None if is_renamed else change.old_blob
            old = self._manifest(before) if before else None
            parts = changed_parts(match.pattern, old, self._manifest(change.blob))
            if parts:
                yield Finding(
                    kind=FindingKind.PROTECTED_PATH,
                    path=change.path,
                    message=f"parts that run by themselves changed: {', '.join(parts)}",
                )

    def _manifest(self, blob: str) -> bytes:
        """Return the content of a manifest; of one that is too large nothing that can be read."""
        size = int(self.git.run("cat-file", "-s", blob))
        return self.git.run("cat-file", "blob", blob) if size <= MANIFEST_BYTES else b""


def _odd(descriptor: int, status: os.stat_result, path: str, sight: Sight) -> None:
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        sight.find(FindingKind.SETUID, path, "has a set-user-ID or set-group-ID bit")
    try:
        names = os.listxattr(descriptor)
    except OSError:
        return
    foreign = sorted(name for name in names if not name.startswith(OWN_XATTRS))
    if foreign:
        blocks = any(not name.startswith("user.") for name in foreign)
        sight.find(
            FindingKind.XATTR, path, f"carries {', '.join(foreign)}, left out", blocks=blocks
        )


def _leaving(changes: Sequence[Change], links: TreeLinks) -> Iterator[Finding]:
    changed = {
        path
        for change in changes
        if LINK in {change.mode, change.old_mode}
        for path in (change.path, change.old_path)
        if path
    }
    for path, message in leaving(links, changed).items():
        yield Finding(kind=FindingKind.ESCAPING_LINK, path=path, message=message)


def _identity(base_tree: str, tree: str, findings: Sequence[Finding]) -> str:
    digest = hashlib.sha256(f"{base_tree}\n{tree}\n".encode())
    for finding in findings:
        line = f"{finding.kind}\0{finding.path}\0{finding.message}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return f"cs-{digest.hexdigest()[:40]}"


__all__ = ["Capture"]
