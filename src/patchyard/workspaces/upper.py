"""Reads an overlay's upper folder: what was written, and what was taken away."""

import os
import stat

from patchyard.clients.reader import Reader, Status
from patchyard.workspaces.ignores import Ignores
from patchyard.workspaces.sight import Named, Sight, Tracked, is_opaque, is_whiteout


def walk(reader: Reader, tracked: Tracked, ignores: Ignores) -> Sight:
    """Return what the upper folder says about the base's paths."""
    sight = Sight()
    level = [""]
    while level:
        named = [each for folder in level for each in _listed(reader, folder, tracked, sight)]
        ignored = ignores.among_untracked(tracked, named)
        level = []
        for path, status, at in named:
            if path not in ignored and _look(path, status, at, tracked, sight):
                level.append(path)
    return sight


def _listed(reader: Reader, folder: str, tracked: Tracked, sight: Sight) -> list[Named]:
    """Return what is in a folder, and note what an opaque one hides."""
    named = sight.listed(reader, folder)
    if folder and is_opaque(reader.folder(folder)):
        at = os.fstat(reader.folder(folder)).st_ctime
        for path in tracked.below(folder):
            if path not in sight.touched:
                sight.lose(tracked, path, at)
    return named


def _look(path: str, status: Status, at: float, tracked: Tracked, sight: Sight) -> bool:
    """Note one entry; return whether it is a folder to look into."""
    if is_whiteout(status):
        sight.lose(tracked, path, at)
        return False
    if not stat.S_ISDIR(status.st_mode):
        if tracked.is_folder(path):
            sight.lose(tracked, path, status.st_ctime)
        sight.note(tracked, path, status)
        return False
    return sight.enters(tracked, path, status)


__all__ = ["walk"]
