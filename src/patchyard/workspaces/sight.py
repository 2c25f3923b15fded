"""What a walk over a workspace saw: candidates for change, what is gone, and what is odd."""

import bisect
import functools
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchyard.clients.reader import MAX_DEPTH, Reader, Status
from patchyard.domain.bare_repositories import may_name_part
from patchyard.domain.changeset import Finding, FindingKind
from patchyard.domain.errors import LimitReached
from patchyard.domain.links import LINK
from patchyard.domain.names import is_dot_git

Entries = Mapping[str, tuple[str, str]]  # mode and blob by path
Named = tuple[str, Status, float]  # path, status, when its folder last changed
GITLINK = "160000"
OPAQUE = "trusted.overlay.opaque"
MAX_TOUCHED = 200_000  # files in one change set
MAX_BYTES = 4 * 1024**3  # read for one change set; holes in files cost an agent nothing
MAX_PATH_BYTES = 3000  # of a folder; the kernel takes 4096 for the whole path


class Tracked:
    """The base's entries, with the questions a walk asks of them."""

    def __init__(self, entries: Entries) -> None:
        """Take the entries of the base tree."""
        self.entries = entries

    @functools.cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.entries)

    @functools.cached_property
    def _folders(self) -> frozenset[str]:
        found: set[str] = set()
        for path in self.entries:
            folder = path.rpartition("/")[0]
            while folder and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return frozenset(found)

    @functools.cached_property
    def links(self) -> Mapping[str, str]:
        """The blobs of the symbolic links by path."""
        return {path: blob for path, (mode, blob) in self.entries.items() if mode == LINK}

    @functools.cached_property
    def _submodules(self) -> frozenset[str]:
        return frozenset(path for path, (mode, _) in self.entries.items() if mode == GITLINK)

    def submodule_above(self, path: str) -> str:
        """Return the submodule in whose folder `path` lies, "" for none."""
        while self._submodules and (path := path.rpartition("/")[0]):
            if path in self._submodules:
                return path
        return ""

    @functools.cached_property
    def parts_of_git(self) -> Sequence[str]:
        """The paths that may name a part of a git directory."""
        return tuple(filter(may_name_part, self.entries))

    def is_folder(self, path: str) -> bool:
        """Whether the base has something below `path`."""
        return path in self._folders

    def is_hidden_by(self, path: str, *, is_folder: bool) -> bool:
        """Whether a folder, or what is none, laid at `path` would hide a file of the base."""
        mode = self.entries.get(path, ("", ""))[0]
        if is_folder:
            return mode not in {"", GITLINK}
        return bool(mode) or self.is_folder(path)

    def below(self, path: str) -> list[str]:
        """Return the base's paths below the folder `path`."""
        first = bisect.bisect_left(self._sorted, f"{path}/")
        last = bisect.bisect_left(self._sorted, f"{path}0")  # "0" follows "/"
        return self._sorted[first:last]


@dataclass(frozen=True, kw_only=True, slots=True)
class Touched:
    """A regular file or symbolic link that may differ from the base."""

    path: str
    mode: int  # as st_mode
    size: int  # bytes
    changed: float  # when its status last did, in seconds


@dataclass(kw_only=True)
class Sight:
    """The outcome of a walk."""

    touched: dict[str, Touched] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)  # base path to time, seconds
    findings: list[Finding] = field(default_factory=list)
    size: int = 0  # of all touched files, in bytes

    def lose(self, tracked: Tracked, path: str, at: float) -> None:
        """Note that the base's file at `path`, or all below it, is no longer there."""
        if path in tracked.entries:
            self.gone[path] = at
        for deeper in tracked.below(path):
            self.gone[deeper] = at

    def listed(self, reader: Reader, folder: str) -> list[Named]:
        """Return what is in a folder, the synthetic `.git` aside; an unreadable one is noted."""
        try:
            at = os.fstat(reader.folder(folder)).st_ctime
            names = reader.names(folder)
        except PermissionError:
            self.find(FindingKind.UNREADABLE, folder, "the folder cannot be read")
            return []
        prefix = f"{folder}/" if folder else ""
        named = ((prefix + name, status, at) for name, status in names)
        return [each for each in named if each[0] != ".git"]

    def see(self, path: str, status: Status | os.stat_result) -> None:
        """Note a candidate."""
        if len(self.touched) >= MAX_TOUCHED:
            raise LimitReached(
                f"more than {MAX_TOUCHED} files were written",
                limit_name="written files",
                hint="put build output where .gitignore covers it, or delete it",
            )
        self.gone.pop(path, None)
        if self.size + status.st_size > MAX_BYTES:
            self.find(FindingKind.TOO_LARGE, path, f"{MAX_BYTES} bytes were written; left out")
            return
        self.size += status.st_size
        self.touched[path] = Touched(
            path=path, mode=status.st_mode, size=status.st_size, changed=status.st_ctime
        )

    def note(self, tracked: Tracked, path: str, status: Status | os.stat_result) -> None:
        """Take in what is no folder: content, or something odd in its place."""
        if is_dot_git(path.rpartition("/")[2]):
            self.find(FindingKind.NESTED_GIT, path, "a repository inside the work tree")
        elif is_content(status):
            self.see(path, status)
        else:
            self.lose(tracked, path, status.st_ctime)
            self.find(FindingKind.SPECIAL_FILE, path, f"{special_kind(status)} is left out")

    def enters(self, tracked: Tracked, path: str, status: Status | os.stat_result) -> bool:
        """Take in a folder and say whether to look into it."""
        if is_dot_git(path.rpartition("/")[2]):
            self.find(FindingKind.NESTED_GIT, path, "a repository inside the work tree")
            return False
        if path in tracked.entries and tracked.entries[path][0] != GITLINK:
            self.lose(tracked, path, status.st_ctime)
        if path.count("/") >= MAX_DEPTH or len(os.fsencode(path)) > MAX_PATH_BYTES:
            self.find(FindingKind.TOO_LARGE, path, f"deeper than {MAX_DEPTH} folders, or too long")
            return False
        return True

    def find(self, kind: FindingKind, path: str, message: str, *, blocks: bool = True) -> None:
        """Note something that needs a person's eye."""
        self.findings.append(Finding(kind=kind, path=path, message=message, blocks_apply=blocks))


def is_content(status: Status | os.stat_result) -> bool:
    """Whether git can hold it: a regular file or a symbolic link."""
    return stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)


def special_kind(status: Status | os.stat_result) -> str:
    """Return a word for what is neither content nor folder."""
    words = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a character device",
        stat.S_IFBLK: "a block device",
    }
    return words.get(stat.S_IFMT(status.st_mode), "no regular file")


def is_opaque(folder: int | Path) -> bool:
    """Whether an overlay says that a folder hides all below it.

    `user.` attributes are the agent's to set, and not asked.
    """
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False


def is_whiteout(status: Status | os.stat_result) -> bool:
    """Whether an overlay put this entry in place of a deleted one."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


__all__ = [
    "GITLINK",
    "OPAQUE",
    "Entries",
    "Named",
    "Sight",
    "Touched",
    "Tracked",
    "is_content",
    "is_opaque",
    "is_whiteout",
    "special_kind",
]
