"""Which names git refuses in a tree, decided from the name alone."""

import re

DOT_GIT = re.compile(r"^(\.git|git~1)[. ]*(:.*)?$", re.IGNORECASE | re.DOTALL)
DOT_GITMODULES = re.compile(r"^(\.gitmodules|gitmod~[1-4])[. ]*(:.*)?$", re.IGNORECASE | re.DOTALL)
# Code points HFS+ ignores in names (git's utf8.c lists the same).
HFS_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


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


__all__ = ["is_dot_git", "refused_because"]
