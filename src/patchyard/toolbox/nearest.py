"""What a path that leads nowhere may have meant: near names beside it, its name elsewhere."""

from __future__ import annotations

import difflib
import os
from itertools import islice

from .answers import Refusal
from .walking import entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .paths import Workspace

SHOWN = 3
SEARCHED = 5000  # entries; counted and not timed, so that the same tree gives the same answer
LIKE_ENOUGH = 0.6


def near_paths(workspace: Workspace, path: str, *, only_folders: bool) -> list[str]:
    """Return up to three paths that `path` may mean, the likeliest first; folders end in a slash.

    Raises Refusal or OSError when the workspace itself cannot be read.
    """
    folder, _, name = path.rstrip("/").rpartition("/")
    if name in ("", ".", ".."):
        return []
    found = _beside(workspace, folder, name)
    if len(found) < SHOWN:
        found += _elsewhere(workspace, path, name)
    itself = os.path.normpath(path)  # a link that leads nowhere
    fitting = (one for one in found if one != itself and (one.endswith("/") or not only_folders))
    return list(dict.fromkeys(fitting))[:SHOWN]


def _beside(workspace: Workspace, folder: str, name: str) -> list[str]:
    """Return what has a name like `name` in the path's folder, if there is that folder."""
    try:
        with workspace.locate(folder or ".") as place:
            top, shown = place.open_folder(), place.relative
    except (Refusal, OSError):
        return []
    try:
        with os.scandir(top) as listed:
            some = sorted(islice(listed, SEARCHED), key=lambda entry: entry.name)
    finally:
        os.close(top)
    by_name = {entry.name.lower(): _shown(entry.name, entry) for entry in some}
    close = difflib.get_close_matches(name.lower(), by_name, SHOWN, LIKE_ENOUGH)
    prefix = "" if shown == "." else shown + "/"
    return [prefix + by_name[one] for one in close]


def _elsewhere(workspace: Workspace, path: str, name: str) -> list[str]:
    """Return what has the very name anywhere, first what shares most folders with `path`."""
    with workspace.locate(".") as place:
        top = place.open_folder()
    try:
        same = [
            _shown(found.path, found.entry)
            for found in islice(entries(top, ""), SEARCHED)
            if found.entry.name.lower() == name.lower()
        ]
    finally:
        os.close(top)
    wanted = set(path.split("/"))
    return sorted(same, key=lambda one: (-len(wanted.intersection(one.split("/"))), len(one), one))


def _shown(path: str, entry: os.DirEntry[str]) -> str:
    return path + "/" if entry.is_dir(follow_symlinks=False) else path


__all__ = ["LIKE_ENOUGH", "SEARCHED", "SHOWN", "near_paths"]
