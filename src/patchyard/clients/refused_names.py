"""Names in a commit that git writes into no checkout: a stranger puts them in to overwrite `.git`.

A program that makes objects by itself can store them; git refuses them as late as it writes files.
"""

import os
from collections.abc import Iterable
from itertools import pairwise

from patchyard.clients.git import Git
from patchyard.domain.errors import UsageError
from patchyard.domain.names import refused_because

SYMLINK = b"120000"
EMPTY = frozenset({b"", b".", b".."})


def require_written(git: Git, commit: str, *, where: str) -> None:
    """Raise UsageError where a commit holds such a name; `where` says in which repository."""
    rest = b""
    for piece in git.streamed("ls-tree", "-r", "-z", "--full-tree", commit):
        *lines, rest = (rest + piece).split(b"\0")
        for line in lines:
            facts, _, path = line.partition(b"\t")
            require_name(path, mode=facts[:6], commit=commit, where=where)


def require_name(path: bytes, *, mode: bytes, commit: str, where: str) -> None:
    """Raise UsageError for one entry of a commit that git writes into no checkout."""
    names = path.split(b"/")
    if path.isascii() and b"git" not in path.lower() and not EMPTY.intersection(names):
        return
    reason = refused_because(os.fsdecode(path), is_symlink=mode == SYMLINK)
    if reason:
        raise refused_name(os.fsdecode(path), reason, commit=commit, where=where)


def require_in_order(paths: Iterable[str], *, commit: str, where: str) -> None:
    """Raise UsageError where paths of a tree, as git lists all of it, are not in git's order.

    Git reads such a tree; each of its commands that writes one puts it in order, so that the result
    of a plan would differ from its base where the plan changed nothing.
    """
    for before, path in pairwise(paths):
        if before >= path and os.fsencode(before) >= os.fsencode(path):  # by bytes, as git does
            raise UsageError(
                f"{commit[:12]} of {where} holds {ascii(path)[:200]} out of order, as no command of"
                " git writes it",
                hint="`git fsck` there says more; begin with a commit without it: --ref",
            )


def refused_name(path: str, reason: str, *, commit: str, where: str) -> UsageError:
    """Return the refusal of a commit with a name that git writes into no checkout."""
    shown = ascii(path)[:200]
    return UsageError(
        f"{commit[:12]} of {where} holds the path {shown} ({reason}), which git itself writes into"
        " no checkout",
        hint="begin with a commit without it: --ref; such a path is put in to overwrite .git",
    )


__all__ = ["refused_name", "require_in_order", "require_name", "require_written"]
