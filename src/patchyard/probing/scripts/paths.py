"""Entries of a tree that lead out of it, or do more than lie there, wherever they are carried."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]


def link_out(given: Given) -> None:
    """Lay a link to a file outside."""
    os.symlink(given["secret"], given["spot"])


def through_link(given: Given) -> None:
    """Write a file where the checkout has a link to the outside instead of a folder."""
    place = os.path.join(given["workspace"], given["way"])
    os.makedirs(place)
    _write(os.path.join(place, "secret"), "overwritten")


def fifo(given: Given) -> None:
    """Leave a pipe that whoever opens it waits at for ever."""
    os.mkfifo(given["spot"])


def device(given: Given) -> None:
    """Leave a device."""
    os.mknod(given["spot"], stat.S_IFCHR | 0o666, os.makedev(1, 3))


def setuid(given: Given) -> None:
    """Leave a program that sets the user."""
    _write(given["spot"], "#!/bin/sh\n")
    os.chmod(given["spot"], 0o6755)


def nested_git(given: Given) -> None:
    """Leave a repository, in spellings that other file systems take for the same."""
    for name in (".git", ".GIT", "git~1"):
        os.makedirs(os.path.join(given["near"], name, "hooks"))
        _write(os.path.join(given["near"], name, "hooks", "pre-commit"), "#!/bin/sh\n")


def own_git(given: Given) -> None:
    """Change the configuration of the repository itself."""
    with open(os.path.join(given["workspace"], ".git", "config"), "a", encoding="ascii") as file:
        file.write("[user]\n\tname = %s\n" % given["token"])


def runs_by_itself(given: Given) -> None:
    """Leave what a shell, an editor or an agent acts on by itself."""
    for name in (".envrc", "AGENTS.md", ".mcp.json"):
        _write(os.path.join(given["near"], name), "x\n")


def naive_copy(given: Given) -> None:
    """Carry a tree as a careless tool would: by paths, through links, with modes and all."""
    for folder, _, names in os.walk(given["workspace"]):
        place = os.path.join(given["carried"], os.path.relpath(folder, given["workspace"]))
        os.makedirs(place, exist_ok=True)
        for name in names:
            try:
                _carry(os.path.join(folder, name), os.path.join(place, name))
            except PermissionError:  # of git's own objects, which are there already
                continue


def _carry(path: str, target: str) -> None:
    with open(path, "rb") as source:
        mode = os.fstat(source.fileno()).st_mode
        if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
            with open(target, "wb") as file:
                file.write(source.read())
            os.chmod(target, stat.S_IMODE(mode))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


__all__ = [
    "device",
    "fifo",
    "link_out",
    "naive_copy",
    "nested_git",
    "own_git",
    "runs_by_itself",
    "setuid",
    "through_link",
]
