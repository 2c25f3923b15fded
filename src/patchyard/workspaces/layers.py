"""Kept setup layers: folders by key, moved into place in one step.

A layer is a plain folder: it adds files, hides none, and is the same for every strategy.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from patchyard.clients.removal import remove_tree
from patchyard.clients.shelves import Shelf
from patchyard.clients.syncing import put_in_place
from patchyard.workspaces.sight import OPAQUE, Tracked, is_opaque, is_whiteout

GONE = ".patchyard-gone"  # in layers of before 0.6: what setup deleted, NUL between the paths
NO_PART = (".git", GONE)  # of a layer


class LayerCache:
    """contracts.layers.Layers under one folder on the same file system as the workspaces.

    Only the engine enters it: an agent without walls could change what later plans get.
    """

    def __init__(self, folder: Path, label: str) -> None:
        """Take the folder, and what names this installation: others may use the same folder."""
        self._shelf = Shelf(folder, label)

    def find(self, key: str) -> Path | None:
        """See contracts.layers.Layers."""
        if not self._shelf.folder.is_dir():
            return None
        with self._shelf.using(key) as layer:
            return layer if layer.is_dir() else None

    def keep(self, key: str, written: Path, *, without: Sequence[str] = ()) -> Path:
        """See contracts.layers.Layers. The synthetic `.git` is no part of a layer."""
        folder = self._shelf.folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):  # another user's, who has closed it
            folder.chmod(0o700)  # of an earlier version: it could be passed through
        for path in (*NO_PART, *without):
            remove_tree(written / path)
        _make_plain(written)
        with self._shelf.using(key) as layer:
            if layer.is_dir():  # another process was faster; theirs is the same
                shutil.rmtree(written, ignore_errors=True)
            else:
                put_in_place(written, layer)
        return layer


def lying_over(layer: Path, tracked: Tracked) -> list[str]:
    """Return the paths in a layer that would hide a tracked file, or folders with some."""
    found: list[str] = []
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        if folder and is_opaque(layer / folder):
            there = (path for path in tracked.below(folder) if not os.path.lexists(layer / path))
            found.extend(there)
        for entry in _entries(layer / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if tracked.is_hidden_by(path, is_folder=is_folder):
                found.append(path)
            elif tracked.is_folder(path):
                waiting.append(path)
    return sorted(found)


def _make_plain(folder: Path) -> None:
    """Take the marks of an overlay away: nothing in a layer hides what lies below it."""
    for place in _folders_below(folder):
        with contextlib.suppress(OSError):  # not marked, or marks are not this user's to see
            os.removexattr(place, OPAQUE, follow_symlinks=False)


def _folders_below(folder: Path) -> Iterator[Path]:
    """Yield the folders below `folder`; whiteouts beside them are deleted on the way."""
    waiting = [folder]
    while waiting:
        for entry in _entries(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
                yield waiting[-1]
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                _delete_whiteout(entry)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder: nothing where it is closed, or deeper than a path can name."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        if error.errno in {errno.EACCES, errno.ENAMETOOLONG}:
            return []
        raise


def _delete_whiteout(entry: os.DirEntry[str]) -> None:
    status = entry.stat(follow_symlinks=False)
    if stat.S_ISCHR(status.st_mode) and is_whiteout(status):
        Path(entry.path).unlink()


__all__ = ["GONE", "LayerCache", "lying_over"]
