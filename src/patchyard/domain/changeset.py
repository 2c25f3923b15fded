"""Bases, change sets and their entries, as data. Knows no git command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

NAMED = 3  # paths that are named of those that a base lacks
LARGEST_TEXT = 3 * 1024 * 1024  # bytes of a file whose lines are told apart


class ChangeStatus(StrEnum):
    """How an entry differs from the base."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    RENAMED = "renamed"
    MODE = "mode"
    TYPE = "type"  # file to symlink and the like


@dataclass(frozen=True, kw_only=True)
class FilteredPair:
    """A path whose bytes in the checkout differ from its blob in git (line endings, LFS)."""

    raw: str  # blob id of the bytes as they lie in the checkout
    normalised: str  # blob id that a commit holds


@dataclass(frozen=True, kw_only=True)
class Base:
    """The immutable tree a plan starts from."""

    repository: str  # absolute path of the user's checkout (top level)
    store: str  # absolute path of the engine's own git directory that holds the objects
    commit: str | None  # HEAD it stands on, None for a branch without commits
    branch: str | None  # short name, None when HEAD is detached
    tree: str  # tree object id in the store: the checkout as it is
    uncommitted: int = 0  # files that differ from the commit
    filtered: Mapping[str, FilteredPair] = field(default_factory=dict)  # by path
    submodules: Mapping[str, str] = field(default_factory=dict)  # path to commit (links only)
    author: str = ""  # "Name <mail>" of the user's configuration, read once
    excludes: str = ""  # blob id in the store: the user's excludes file and info/exclude
    attributes: str = ""  # blob id in the store: the user's attributes file and info/attributes
    withheld: tuple[str, ...] = ()  # which of these two the agent is not shown
    conversions: Mapping[str, str] = field(default_factory=dict)  # core.autocrlf, core.eol
    left_out: tuple[str, ...] = ()  # nested repositories, closed folders, names git refuses

    @property
    def shown(self) -> str:
        """`main@1a2b3c4 + 3 uncommitted files, without vendor`."""
        name = f"{self.branch or 'detached'}@{(self.commit or 'none')[:7]}"
        files = "file" if self.uncommitted == 1 else "files"
        more = f" + {self.uncommitted} uncommitted {files}" if self.uncommitted else ""
        return f"{name}{more}{without(self.left_out)}"


def without(left_out: Sequence[str]) -> str:
    """Return what of a checkout is no part of its base, for people: `, without a, b and 2 more`."""
    named = ", ".join(path if path.isprintable() else repr(path) for path in left_out[:NAMED])
    rest = len(left_out) - NAMED
    return f", without {named}{f' and {rest} more' if rest > 0 else ''}" if left_out else ""


@dataclass(frozen=True, kw_only=True, slots=True)  # a plan may have 200,000
class Change:
    """One entry that differs from the base."""

    path: str  # relative, POSIX, surrogateescape for bytes that are not UTF-8
    status: ChangeStatus
    old_path: str | None = None  # renamed only
    old_mode: str | None = None  # git mode: 100644, 100755, 120000
    mode: str | None = None  # None when deleted
    old_blob: str | None = None
    blob: str | None = None
    is_binary: bool = False  # or larger than LARGEST_TEXT
    added: int = 0  # lines; 0 for binary
    removed: int = 0
    call_id: str | None = None  # the call that last made it, None when not known


class FindingKind(StrEnum):
    """Things in a workspace that a change set cannot or must not carry."""

    SPECIAL_FILE = "special_file"  # device, FIFO, socket
    SETUID = "setuid"
    XATTR = "xattr"
    NESTED_GIT = "nested_git"
    REFUSED_NAME = "refused_name"  # names that git refuses
    PROTECTED_PATH = "protected_path"  # runs by itself or steers agents
    ESCAPING_LINK = "escaping_link"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was noticed and needs a person's eye."""

    kind: FindingKind
    path: str
    message: str
    blocks_apply: bool = True  # apply is refused unless --allow-path names it


@dataclass(frozen=True, kw_only=True)
class ChangeSet:
    """What came of a plan: content-addressed, computed outside the environment."""

    id: str  # "cs-" and hex of a hash over base tree, tree and findings
    base_tree: str
    tree: str
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs from the base."""
        return self.base_tree == self.tree


__all__ = [
    "LARGEST_TEXT",
    "Base",
    "Change",
    "ChangeSet",
    "ChangeStatus",
    "FilteredPair",
    "Finding",
    "FindingKind",
    "without",
]
