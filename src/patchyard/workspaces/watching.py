"""Which files of a tree are read or written, told by the times that the file system notes.

A file that gets the access time 0 has a later one after the next read, also where the file system
notes reads only now and then (`relatime`). A program that sets the time back changes the change
time, which no program can set. Reads of a descriptor opened with `O_NOATIME`, which is open to a
file's owner, leave no trace.
"""

import asyncio
import contextlib
import os
import stat
from collections.abc import Collection
from contextlib import closing

from patchyard.contracts.watching import Marks
from patchyard.toolbox.footing import Footing

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class AccessTimes:
    """contracts.watching.Watching."""

    async def mark(self, root: str, paths: Collection[str]) -> Marks | None:
        """See contracts.watching."""
        return await asyncio.to_thread(_mark, root, sorted(paths))

    async def note(self, root: str, paths: Collection[str]) -> Marks:
        """See contracts.watching."""
        return await asyncio.to_thread(_note, root, sorted(paths))

    async def written_since(self, root: str, marks: Marks) -> frozenset[str]:
        """See contracts.watching."""
        return await asyncio.to_thread(_written_since, root, marks)

    async def read_since(self, root: str, marks: Marks) -> frozenset[str]:
        """See contracts.watching."""
        return await asyncio.to_thread(_read_since, root, marks)


def _mark(root: str, paths: Collection[str]) -> Marks | None:
    found: dict[str, tuple[int, int]] = {}
    is_tried = False
    with closing(Footing(root)) as footing:
        for path in paths:
            with contextlib.suppress(OSError):  # gone, or closed: not told of
                at, name = footing.parent(path)
                status = _cleared(at, name)
                if status is None:
                    continue
                if not is_tried and stat.S_ISREG(status.st_mode) and status.st_size:
                    if not _is_noted(at, name):
                        return None
                    is_tried = True
                    status = _cleared(at, name) or status
                found[path] = (status.st_ino, status.st_ctime_ns)
    return found


def _cleared(at: int, name: bytes) -> os.stat_result | None:
    """Give a file or link the access time 0 and return its status; None for anything else."""
    status = os.stat(name, dir_fd=at, follow_symlinks=False)
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        return None
    os.utime(name, ns=(0, status.st_mtime_ns), dir_fd=at, follow_symlinks=False)
    return os.stat(name, dir_fd=at, follow_symlinks=False)


def _is_noted(at: int, name: bytes) -> bool:
    """Whether a read of this file is noted; really tried."""
    descriptor = os.open(name, READ, dir_fd=at)
    try:
        os.read(descriptor, 1)
        return os.fstat(descriptor).st_atime_ns != 0
    finally:
        os.close(descriptor)


def _note(root: str, paths: Collection[str]) -> Marks:
    with closing(Footing(root)) as footing:
        seen = ((path, _seen(footing, path)) for path in paths)
        return {path: (status.st_ino, status.st_ctime_ns) for path, status in seen if status}


def _written_since(root: str, marks: Marks) -> frozenset[str]:
    with closing(Footing(root)) as footing:
        now = {path: _seen(footing, path) for path in marks}
    return frozenset(
        path
        for path, status in now.items()
        if status is None or (status.st_ino, status.st_ctime_ns) != marks[path]
    )


def _read_since(root: str, marks: Marks) -> frozenset[str]:
    with closing(Footing(root)) as footing:
        return frozenset(
            path for path, mark in marks.items() if not _is_unread(footing, path, mark)
        )


def _is_unread(footing: Footing, path: str, mark: tuple[int, int]) -> bool:
    status = _seen(footing, path)
    is_same = status is not None and (status.st_ino, status.st_ctime_ns) == mark
    return is_same and status is not None and status.st_atime_ns == 0


def _seen(footing: Footing, path: str) -> os.stat_result | None:
    """Return what lies there; None where it, or a folder above it, was taken away."""
    try:
        at, name = footing.parent(path)
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except OSError:
        return None


__all__ = ["AccessTimes"]
