"""What git opens in a work tree by itself, looked at before git is: none of it may hold it up.

Files of rules in each folder that it enters, and the git directories of repositories within.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from patchyard.clients.git import Git
from patchyard.clients.git_files import (
    MAX_TEXT_BYTES,
    content_of,
    directories_of,
    require_file,
    require_files,
)
from patchyard.clients.git_folders import lying_in, require_refs, status_of
from patchyard.clients.listings import Listings, Look
from patchyard.workspaces.indexed import Indexed

RULES = frozenset({".gitattributes", ".gitignore"})
DIRECTORY = ".git"
HEAD = re.compile(rb"ref:\s*refs/|[0-9a-f]{40}")  # of a repository, as git tells one (setup.c)
HEAD_BYTES = 256


def require_readable(
    git: Git, top: Path, index: Indexed, *, listings: Listings | None = None
) -> None:
    """Raise UsageError naming what git would wait for, or read without end, in a work tree.

    `git` looks at the work tree `top`, `index` is what its index holds, `listings` what is
    remembered of folders. Looks through the folders that git enters: those of tracked files, and
    others that no rule ignores.
    """
    look = (listings or Listings()).look()
    for path in index.submodules:
        _is_repository(top / path, look)
    waiting = [""]
    while waiting:
        further: list[str] = []  # without a tracked file
        while waiting:
            at = waiting.pop()
            for path in _folders_in(top, at, look, is_tracked=at in index.folders):
                if path in index.folders:
                    waiting.append(path)
                elif path not in index.submodules:
                    further.append(path)
        waiting = _entered(git, further)


def _folders_in(top: Path, at: str, look: Look, *, is_tracked: bool) -> Sequence[str]:
    """Look at what git opens in a folder, and return the paths of those in it that it may enter."""
    folder = f"{top}/{at}"
    status = status_of(folder)
    if status is None:
        return ()
    listing = lying_in(look, folder, status)
    found = [name for name in listing.folders if name.lower() != DIRECTORY]
    for name in (*listing.dotted, *listing.others, *listing.folders):
        kind = name.lower()  # a file system may take the one for the other
        if kind in RULES:
            if not os.path.isdir(f"{folder}/{name}"):  # noqa: PTH112 - a closed one is none
                require_file(f"{folder}/{name}", MAX_TEXT_BYTES)
        elif kind == DIRECTORY and at and _is_repository(top / at, look) and not is_tracked:
            return ()
    return [f"{at}/{name}" for name in found] if at else found


def _is_repository(folder: Path, look: Look) -> bool:
    """Look at the git directory in a folder, and return whether git takes it for one."""
    git_dir, common_dir = directories_of(folder)
    require_files(git_dir, common_dir)
    require_refs(git_dir, common_dir, look)
    head = git_dir / "HEAD"
    if head.is_symlink():
        is_head = os.fspath(head.readlink()).startswith("refs/")
    else:
        is_head = HEAD.match(content_of(head, HEAD_BYTES)) is not None
    return is_head and all(os.access(common_dir / name, os.X_OK) for name in ("objects", "refs"))


def _entered(git: Git, paths: Sequence[str]) -> list[str]:
    """Return those of some untracked folders that git does not ignore."""
    if not paths:
        return []
    reading = replace(git, extra={**git.extra, "GIT_LITERAL_PATHSPECS": "0"})  # it takes no other
    named = {f"./{path}": path for path in paths}  # of which none begins as a pattern does
    asked = os.fsencode("".join(f"{name}\0" for name in named))
    done = reading.attempt("check-ignore", "-z", "--stdin", stdin=asked, cwd=git.work_tree)
    ignored = {os.fsdecode(name) for name in done.out.split(b"\0")} if done.code == 0 else set()
    return [path for name, path in named.items() if name not in ignored]


__all__ = ["require_readable"]
