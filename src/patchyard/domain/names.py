"""Which names git refuses in a tree, which are one name on some file system, which people chose.

All by name alone.
"""

import re
import unicodedata
from collections.abc import Sequence
from posixpath import normpath

from patchyard.domain.errors import UsageError

DOT_GIT = re.compile(r"^(\.git|git~1)[. ]*(:.*)?$", re.IGNORECASE | re.DOTALL)
DOT_GITMODULES = re.compile(r"^(\.gitmodules|gitmod~[1-4])[. ]*(:.*)?$", re.IGNORECASE | re.DOTALL)
# Code points HFS+ ignores in names (git's utf8.c lists the same).
HFS_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")

# Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt): HFS+ passes over some of them,
# ext4 folders that fold case over all.
IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
WINDOWS_TAIL = re.compile(r":|[. ](?:/|\Z)")  # Windows cuts dots, blanks and stream names off


def folded(path: str) -> str:
    """Return the same path for all paths that some common file system takes for one.

    Case, composed letters and letters that are passed over are those of APFS, HFS+ and ext4,
    trailing dots and blanks those of Windows. The number of components stays.
    """
    if path.isascii() and not WINDOWS_TAIL.search(path):
        lower = path.lower()
        return path if lower == path else lower  # the same text: a tree has many
    return "/".join(_folded_name(name) or name for name in path.split("/"))


def caseless(text: str) -> str:
    """Return the text without case, its composed letters taken apart (as `folded` has them)."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())


def _folded_name(name: str) -> str:
    return IGNORABLE.sub("", caseless(name.partition(":")[0].rstrip(". ")))


def is_dot_git(name: str) -> bool:
    """Whether some file system takes this component for `.git`."""
    return any(DOT_GIT.match(HFS_IGNORED.sub("", piece)) for piece in name.split("\\"))


def refused_because(path: str, *, is_symlink: bool = False) -> str:
    """Return why git refuses `path` (relative, POSIX) in a tree; empty when it does not."""
    names = path.split("/")
    if any(name in {"", ".", ".."} for name in names):
        return "an empty, '.' or '..' component"
    if any(is_dot_git(name) for name in names):
        return "a component that some systems take for .git"
    if is_symlink and DOT_GITMODULES.match(HFS_IGNORED.sub("", names[-1])):
        return "a symbolic link in place of .gitmodules"
    return ""


def chosen_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Return files and folders as people name them (`./a/`, `a//b`) as a change set names them.

    None are all of it, as those with `.` among them are. Raises UsageError for what is no path
    below the top of a repository.
    """
    plain = tuple(normpath(path) if path else path for path in paths)
    for path, said in zip(plain, paths, strict=True):
        if not path or path.startswith("/") or path.split("/", 1)[0] == "..":
            raise UsageError(
                f"{said!r} is no path in the repository",
                hint="name files and folders from its top on, without a slash before them",
            )
    return () if "." in plain else plain


__all__ = ["caseless", "chosen_paths", "folded", "is_dot_git", "refused_because"]
