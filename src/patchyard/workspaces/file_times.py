"""Which files of a tree are read or written, told by the times that the file system notes.

A file that gets the access time 0 has a later one after the next read, also where the file system
notes reads only now and then (`relatime`). A program that sets the time back changes the change
time, which no program can set. Some reads leave no trace there: of a descriptor opened with
`O_NOATIME`, as a file's owner may, and those by which the kernel copies within an overlay, or where
files share blocks (`cp` does that). The kernel tells of them (`lookouts.py`), but for a map of such
a descriptor and a comparison by the kernel (`FIDEDUPERANGE`), which the filter of system calls
refuses where there is one. It tells of folders that are moved, too: another may be in a folder's
place meanwhile, with the folder's own files untouched.
"""

import asyncio
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing

from patchyard.contracts.file_times import Marks
from patchyard.toolbox.footing import Footing
from patchyard.workspaces.lookouts import lies_in, moves_above, reads_of

OWN = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Nowhere:
    """contracts.file_times.Lookout over nothing."""

    is_whole = True

    def told(self) -> frozenset[str]:
        """See contracts.file_times."""
        return frozenset()

    def close(self) -> None:
        """See contracts.file_times."""


class AccessTimes:
    """contracts.file_times.FileTimes."""

    async def mark(self, root: str, paths: Collection[str]) -> Marks | None:
        """See contracts.file_times."""
        return await asyncio.to_thread(_mark, root, sorted(paths))

    async def note(self, root: str, paths: Collection[str]) -> Marks:
        """See contracts.file_times."""
        return await asyncio.to_thread(_note, root, sorted(paths))

    async def written_since(self, root: str, marks: Marks) -> frozenset[str]:
        """See contracts.file_times."""
        return await asyncio.to_thread(_written_since, root, marks)

    async def read_since(self, root: str, marks: Marks) -> frozenset[str]:
        """See contracts.file_times."""
        return await asyncio.to_thread(_read_since, root, marks)


def _mark(root: str, paths: Collection[str]) -> Marks | None:
    try:
        with closing(Footing(root)) as footing:
            if not _is_noted(footing.root):
                return None
            seen = ((path, _cleared(footing, path)) for path in paths)
            files = {path: mark for path, mark in seen if mark is not None}
            return Marks(files=files, lookout=reads_of(footing, files))
    except OSError:  # a full disk, for example: nothing can be tried
        return None


def _is_noted(root: int) -> bool:
    """Whether reads are noted below this folder; really tried, with a file of our own."""
    name = f".patchyard-probe-{os.urandom(8).hex()}"
    descriptor = os.open(name, OWN, 0o600, dir_fd=root)
    try:
        os.write(descriptor, b"x")
        os.utime(descriptor, ns=(0, 0))
        os.pread(descriptor, 1, 0)
        return os.fstat(descriptor).st_atime_ns != 0
    finally:
        os.close(descriptor)
        os.unlink(name, dir_fd=root)


def _cleared(footing: Footing, path: str) -> tuple[int, int] | None:
    """Give a file or link the access time 0; None for anything else, and where that is refused."""
    status = _seen(footing, path)
    if status is None or not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        return None
    try:
        at, name = footing.parent(path)
        os.utime(name, ns=(0, status.st_mtime_ns), dir_fd=at, follow_symlinks=False)
    except OSError:
        return None
    status = _seen(footing, path)
    return None if status is None else _mark_of(status)


def _note(root: str, paths: Collection[str]) -> Marks:
    try:
        footing = Footing(root)
    except OSError:
        return Marks(files={}, lookout=Nowhere())
    with closing(footing):
        seen = ((path, _seen(footing, path)) for path in paths)
        files = {path: _mark_of(status) for path, status in seen if status is not None}
        return Marks(files=files, lookout=moves_above(footing, files))


def _written_since(root: str, marks: Marks) -> frozenset[str]:
    files, moved = marks.files, marks.lookout.told()
    return frozenset(
        path
        for path, status in _all_seen(root, files)
        if status is None or _mark_of(status) != files[path] or lies_in(path, moved)
    )


def _read_since(root: str, marks: Marks) -> frozenset[str]:
    files = marks.files
    return marks.lookout.told() | frozenset(
        path
        for path, status in _all_seen(root, files)
        if status is None or status.st_atime_ns != 0 or _mark_of(status) != files[path]
    )


def _all_seen(root: str, paths: Iterable[str]) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield what lies at each path; None where it is gone, as all is where the root is gone."""
    try:
        footing = Footing(root)
    except OSError:
        yield from ((path, None) for path in paths)
        return
    with closing(footing):
        for path in paths:
            yield path, _seen(footing, path)


def _seen(footing: Footing, path: str) -> os.stat_result | None:
    """Return what lies there; None where it, or a folder above it, was taken away."""
    try:
        at, name = footing.parent(path)
        try:
            return os.stat(name, dir_fd=at, follow_symlinks=False)
        except PermissionError:
            footing.lend(at)
            return os.stat(name, dir_fd=at, follow_symlinks=False)
    except OSError:
        return None


def _mark_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_ctime_ns


__all__ = ["AccessTimes", "Nowhere"]
