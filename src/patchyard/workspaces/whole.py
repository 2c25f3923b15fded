"""Reads a whole work tree against what was noted of it when it was made."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from patchyard.clients.reader import Reader
from patchyard.workspaces.ignores import Ignores
from patchyard.workspaces.sight import Named, Sight, Tracked

Notes = Mapping[str, str]  # path to a fingerprint of its status


def fingerprint(status: os.stat_result) -> str:
    """Return what changes whenever content or mode of an entry changes."""
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    return (
        f"{status.st_mode:o} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        f" {status.st_ino}"
    )


def note(root: Path) -> Notes:
    """Return the fingerprint of every entry below `root`, the synthetic `.git` aside."""
    found: dict[str, str] = {}
    with Reader(root) as reader:
        level = [""]
        while level:
            deeper = []
            for folder in level:
                for path, status, _ in listed(reader, folder):
                    found[path] = fingerprint(status)
                    if stat.S_ISDIR(status.st_mode):
                        deeper.append(path)
            level = deeper
    return found


def listed(reader: Reader, folder: str) -> list[Named]:
    """Return what is in a folder, the synthetic `.git` aside."""
    at = os.fstat(reader.folder(folder)).st_ctime
    prefix = f"{folder}/" if folder else ""
    named = ((prefix + name, status, at) for name, status in reader.names(folder))
    return [each for each in named if each[0] != ".git"]


def walk(reader: Reader, tracked: Tracked, ignores: Ignores, notes: Notes) -> Sight:
    """Return what differs from the notes, seen from the base's paths."""
    sight = Sight()
    present: set[str] = set()
    times: dict[str, float] = {}
    level = [""]
    while level:
        named = [each for folder in level for each in listed(reader, folder)]
        times.update((folder, os.fstat(reader.folder(folder)).st_ctime) for folder in level)
        ignored = ignores.among_untracked(tracked, named)
        level = []
        for path, status, _ in named:
            if path in ignored:
                continue
            if stat.S_ISDIR(status.st_mode):
                if sight.enters(tracked, path, status):
                    level.append(path)
                continue
            present.add(path)
            if notes.get(path) != fingerprint(status):
                sight.note(tracked, path, status)
    _note_gone(tracked, notes, present, times, sight)
    return sight


def _note_gone(
    tracked: Tracked, notes: Notes, present: set[str], times: Mapping[str, float], sight: Sight
) -> None:
    """Note the base's files that were there at the start and are not any more."""
    for path, (mode, _) in tracked.entries.items():
        if mode == "160000" or path in present or path not in notes:
            continue
        folder = path.rpartition("/")[0]
        while folder and folder not in times:
            folder = folder.rpartition("/")[0]
        sight.gone[path] = times[folder]


__all__ = ["Notes", "fingerprint", "listed", "note", "walk"]
