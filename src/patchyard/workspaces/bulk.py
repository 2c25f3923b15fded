"""Bulk: folders that the base ignores and that hold very many entries, such as installed packages.

Their content is kept only where that is asked for. A restore takes them over from the tree that is
there, where nothing in them changed since they were last seen.
"""

import contextlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from patchyard.clients.reader import MAX_DEPTH, OPEN_FOLDER
from patchyard.clients.syncing import sync
from patchyard.domain.manifest import LEFT_OUT, Entry, Manifest
from patchyard.toolbox.wire import loaded
from patchyard.workspaces.store import write_whole

REALTIME_COARSE = 5  # CLOCK_REALTIME_COARSE of linux/time.h
MANY = 2000  # entries below a folder (issue 3)
CARRIED = "carried.json"  # in a workspace's own folder: what a restore takes over


class Bulk:
    """Which folders of one workspace are bulk; asked once for each."""

    def __init__(
        self, is_ignored: Callable[[str], bool], judged: dict[str, bool], *, is_kept: bool
    ) -> None:
        """Take the base's rules and what was found out before; `is_kept`: none is left out."""
        self._is_ignored = is_ignored
        self._judged = judged
        self._is_kept = is_kept

    def leaves_out(self, path: str, *, is_known: bool) -> bool:
        """Whether a folder's content is not to be looked at; `is_known`: it was bulk before."""
        return not self._is_kept and (is_known or self._judged.get(path, False))

    def judge(self, path: str, entries: int) -> bool:
        """Whether a folder with so many entries below is bulk, from now on."""
        if entries <= MANY or self._is_kept or path == ".git" or path.startswith(".git/"):
            return False
        if path not in self._judged:
            self._judged[path] = self._is_ignored(path)
        return self._judged[path]


def count(folder: int, most: int = MANY, *, depth: int = 0) -> int:
    """Return how many entries lie below an open folder, counted up to just over `most`.

    What lies deeper than a look goes counts for nothing.
    """
    found = 0
    names = []
    with os.scandir(folder) as listed:
        for entry in listed:
            found += 1
            if found > most:
                return found
            if entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
    for name in names if depth < MAX_DEPTH else ():
        with contextlib.suppress(OSError):
            inner = os.open(name, OPEN_FOLDER, dir_fd=folder)
            try:
                found += count(inner, most - found, depth=depth + 1)
            finally:
                os.close(inner)
        if found > most:
            return found
    return found


def look_time() -> int:
    """Return now by the clock that files are dated with, in ns."""
    return time.clock_gettime_ns(REALTIME_COARSE)


def carried(current: Path, manifest: Manifest) -> list[str]:
    """Return what is left out of `manifest` and still is as it was at that look."""
    left = [path for path, entry in manifest.items() if entry.held == LEFT_OUT]
    return [path for path in left if _is_as_it_was(current, path, manifest[path])]


def _is_as_it_was(current: Path, path: str, entry: Entry) -> bool:
    return (_is_untouched if entry.is_folder else _is_same)(current, path, entry)


def _is_same(current: Path, path: str, entry: Entry) -> bool:
    """Whether a file that was beyond all bounds is the one that was seen."""
    above, _, name = path.rpartition("/")
    try:
        with _opened(current, above) as folder:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    seen = (entry.ino, entry.size, entry.ctime, entry.mode)
    return (found.st_ino, found.st_size, found.st_ctime_ns, found.st_mode) == seen


def _is_untouched(current: Path, path: str, entry: Entry) -> bool:
    """Whether nothing changed since; the folder itself may have been moved by us."""
    try:
        with _opened(current, path) as folder:
            return os.fstat(folder).st_mtime_ns == entry.mtime and _is_older(folder, entry.size)
    except OSError:
        return False


def _is_older(folder: int, seen: int, *, depth: int = 0) -> bool:
    """Whether all below a folder changed last before `seen`; what is too deep to say did not."""
    if depth > MAX_DEPTH:
        return False
    names = []
    with os.scandir(folder) as listed:
        for entry in listed:
            status = entry.stat(follow_symlinks=False)
            if status.st_ctime_ns >= seen:
                return False
            if stat.S_ISDIR(status.st_mode):
                names.append(entry.name)
    for name in names:
        inner = os.open(name, OPEN_FOLDER, dir_fd=folder)
        try:
            if not _is_older(inner, seen, depth=depth + 1):
                return False
        finally:
            os.close(inner)
    return True


def announce(own: Path, paths: Sequence[str]) -> None:
    """Write down what is about to be taken over, so that a killed restore can go on with it."""
    write_whole(own / CARRIED, json.dumps(list(paths)))


def carry(old: Path, current: Path, own: Path) -> None:
    """Move what was announced from the old tree into the current one. Repeatable."""
    try:
        paths: list[str] = loaded((own / CARRIED).read_bytes())
    except FileNotFoundError:
        return
    for path in paths:
        above, _, name = path.rpartition("/")
        with (
            contextlib.suppress(FileNotFoundError),
            _opened(old, above) as source,
            _opened(current, above) as target,
        ):
            times = os.fstat(target)
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
            os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
            sync(target)
    (own / CARRIED).unlink()


@contextlib.contextmanager
def _opened(root: Path, path: str) -> Iterator[int]:
    """Open a folder through no link."""
    at = os.open(root, OPEN_FOLDER)
    try:
        for name in path.split("/") if path else ():
            deeper = os.open(name, OPEN_FOLDER, dir_fd=at)
            os.close(at)
            at = deeper
        yield at
    finally:
        os.close(at)


__all__ = ["CARRIED", "MANY", "Bulk", "announce", "carried", "carry", "count", "look_time"]
