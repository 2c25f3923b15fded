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


GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})  # or no file by now


class Unread:
    """Counts the folders and files that a walk could not read, those that are gone by now not."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, error: OSError) -> None:
        """Take in why something was passed over."""
        self.count += error.errno not in GONE


class Found:
    """A file on the way: its open folder (valid until the next one), name and path."""

    __slots__ = ("entry", "folder", "path", "unread")

    def __init__(self, folder: int, entry: os.DirEntry[str], path: str, unread: Unread) -> None:
        self.folder = folder
        self.entry = entry
        self.path = path
        self.unread = unread

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
        """Return its content; None when it is larger than `limit` or cannot be read (`unread`)."""
        try:
            with open(self.open(), "rb") as file:
                found = os.fstat(file.fileno()).st_size
                return file.read(limit) if found <= limit else None
        except OSError as error:
            self.unread.note(error)
            return None


def entries(
    top: int, prefix: str, *, only: str = "", unread: Unread | None = None
) -> Iterator[Found]:
    """Yield what lies under the open folder `top` (the caller's), folders before their contents.

    `prefix` is the path of `top` from the workspace, empty for the workspace itself; `only` leaves
    all names at the top but one. What nobody searches is left out; folders that cannot be read are
    not entered, which `unread` counts, links not followed.
    """
    unread = unread or Unread()
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
                yield Found(folder, entry, _join(path, entry.name), unread)
                if is_folder and len(stack) < MAX_DEPTH:
                    _descend(stack, entry.name, path, unread)
    finally:
        for folder, _, _ in stack:
            os.close(folder)


def walk(top: int, prefix: str, *, only: str = "", unread: Unread | None = None) -> Iterator[Found]:
    """Yield the regular files of `entries`."""
    for found in entries(top, prefix, only=only, unread=unread):
        if found.entry.is_file(follow_symlinks=False):
            yield found


def _descend(
    stack: list[tuple[int, str, Iterator[os.DirEntry[str]]]], name: str, path: str, unread: Unread
) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        _push(stack, os.open(name, flags, dir_fd=stack[-1][0]), _join(path, name))
    except OSError as error:
        unread.note(error)


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


__all__ = ["GONE", "MAX_DEPTH", "SKIPPED", "Found", "Unread", "entries", "walk"]
