"""Reads a whole work tree against what was noted of it when it was made."""

import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from patchyard.clients.reader import Reader, Status
from patchyard.domain.changeset import FindingKind
from patchyard.workspaces.ignores import Ignores
from patchyard.workspaces.sight import GITLINK, Sight, Tracked

UNREADABLE = FindingKind.UNREADABLE

TICKS_NS = 20_000_000  # the coarsest clock of a kernel in use (100 Hz), twice

Notes = Mapping[str, str]  # path to a fingerprint of its status


def fingerprint(status: Status | os.stat_result) -> str:
    """Return what changes whenever content or mode of an entry changes."""
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    return (
        f"{status.st_mode:o} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        f" {status.st_ino}"
    )


def note(root: Path) -> Notes:
    """Return the fingerprint of every entry below `root`, the synthetic `.git` aside.

    What changed just now gets none that ever fits: an edit within the same tick of the kernel's
    clock would leave the times as they are.
    """
    found: dict[str, str] = {}
    settled = time.time_ns() - TICKS_NS
    sight = Sight()
    with Reader(root) as reader:
        level = [""]
        while level:
            deeper = []
            for folder in level:
                for path, status, _ in sight.listed(reader, folder):
                    found[path] = fingerprint(status) if status.st_ctime_ns < settled else ""
                    if stat.S_ISDIR(status.st_mode):
                        deeper.append(path)
            level = deeper
    return found


def walk(reader: Reader, tracked: Tracked, ignores: Ignores, notes: Notes) -> Sight:
    """Return what differs from the notes, seen from the base's paths."""
    sight = Sight()
    present: set[str] = set()
    times: dict[str, float] = {"": os.fstat(reader.folder("")).st_ctime}
    level = [""]
    while level:
        named = [each for folder in level for each in sight.listed(reader, folder)]
        times.update((path.rpartition("/")[0], at) for path, _, at in named)
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
    closed = tuple(f"{each.path}/" for each in sight.findings if each.kind == UNREADABLE)
    for path in _missing(tracked, notes, present):
        if not path.startswith(closed):
            sight.gone[path] = _changed_above(path, times)
    return sight


def _missing(tracked: Tracked, notes: Notes, present: set[str]) -> Iterator[str]:
    """Yield the base's files that were there at the start and are not any more."""
    for path, (mode, _) in tracked.entries.items():
        if mode != GITLINK and path not in present and path in notes:
            yield path


def _changed_above(path: str, times: Mapping[str, float]) -> float:
    """Return when the nearest folder above that is still there last changed."""
    folder = path.rpartition("/")[0]
    while folder and folder not in times:
        folder = folder.rpartition("/")[0]
    return times[folder]


__all__ = ["TICKS_NS", "Notes", "fingerprint", "note", "walk"]
