"""Walks the workspace by descriptor, in order, past what nobody searches."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

MAX_DEPTH = 100
SKIPPED = frozenset(
    {
        *(".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".next", ".turbo", "dist", "build"),
        *(".idea", ".cache"),
    }
)


class Found:
    """A file on the way: its open folder (valid until the next one), name and path."""

    __slots__ = ("entry", "folder", "path")

    def __init__(self, folder: int, entry: os.DirEntry[str], path: str) -> None:
        self.folder = folder
        self.entry = entry
        self.path = path

    def open(self) -> int:
        """Open it; never through a link, never waiting. Raises OSError for what is no file by now.

        Another program may have put a FIFO in its place, which can be read without end.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(self.entry.name, flags, dir_fd=self.folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileNotFoundError(errno.ENOENT, "no file any more", self.path)
        return descriptor

    def read(self, limit: int) -> bytes | None:
        """Return its content; None when it is larger than `limit` or cannot be read."""
        try:
            with open(self.open(), "rb") as file:
                found = os.fstat(file.fileno()).st_size
                return file.read(limit) if found <= limit else None
        except OSError:
            return None


def entries(top: int, prefix: str, *, only: str = "") -> Iterator[Found]:
    """Yield what lies under the open folder `top` (the caller's), folders before their contents.

    `prefix` is the path of `top` from the workspace, empty for the workspace itself; `only` leaves
    all names at the top but one. What nobody searches is left out; folders that cannot be read are
    not entered, links not followed.
    """
    stack: list[tuple[int, str, Iterator[os.DirEntry[str]]]] = []
    try:
        _push(stack, os.dup(top), prefix)
        while stack:
            folder, path, names = stack[-1]
            entry = next(names, None)
            if entry is None:
                os.close(stack.pop()[0])
            elif not only or len(stack) > 1 or entry.name == only:
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder and entry.name in SKIPPED:
                    continue
                yield Found(folder, entry, _join(path, entry.name))
                if is_folder and len(stack) < MAX_DEPTH:
                    _descend(stack, folder, entry.name, path)
    finally:
        for folder, _, _ in stack:
            os.close(folder)


def walk(top: int, prefix: str, *, only: str = "") -> Iterator[Found]:
    """Yield the regular files of `entries`."""
    for found in entries(top, prefix, only=only):
        if found.entry.is_file(follow_symlinks=False):
            yield found


def _descend(
    stack: list[tuple[int, str, Iterator[os.DirEntry[str]]]], folder: int, name: str, path: str
) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        _push(stack, os.open(name, flags, dir_fd=folder), _join(path, name))
    except OSError:  # unreadable, or gone since
        return


def _push(stack: list[tuple[int, str, Iterator[os.DirEntry[str]]]], folder: int, path: str) -> None:
    try:
        with os.scandir(folder) as listed:
            found = sorted(listed, key=lambda entry: entry.name)
    except OSError:
        os.close(folder)
        raise
    stack.append((folder, path, iter(found)))


def _join(path: str, name: str) -> str:
    return path + "/" + name if path else name


__all__ = ["MAX_DEPTH", "SKIPPED", "Found", "entries", "walk"]
