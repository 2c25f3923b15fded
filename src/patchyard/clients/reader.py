"""Reads a tree that somebody hostile may have arranged: by descriptors, following no link.

Devices, FIFOs and sockets are never opened. Nothing of it is run or interpreted.
"""

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

from patchyard.domain.errors import WorkFailed

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MAX_DEPTH = 200


@functools.lru_cache(maxsize=256)
def one_of(mode: int) -> int:
    """Return the mode; equal ones are one object, since a look may hold 200,000 of few values."""
    return mode


class Status(NamedTuple):
    """What a walk needs of `os.stat_result`, which takes three times the room."""

    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_ino: int
    st_rdev: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Take over what is needed."""
        return cls(
            one_of(status.st_mode),
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_ino,
            status.st_rdev,
        )

    @property
    def st_ctime(self) -> float:
        """When the entry last changed, in seconds."""
        return self.st_ctime_ns / 1e9


class Reader:
    """One tree, entered at its root and walked by descriptors."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """Open the root. Raises OSError when it is no folder."""
        self._root = os.open(root, OPEN_FOLDER & ~os.O_NOFOLLOW)
        self._kept: tuple[str, int] | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close what is open."""
        self._drop()
        os.close(self._root)

    def folder(self, path: str) -> int:
        """Return a descriptor of the folder, valid until the next call; "" is the root.

        Raises OSError when a component is missing, no folder, or a link.
        """
        if not path:
            return self._root
        if self._kept is not None and self._kept[0] == path:
            return self._kept[1]
        at = self._root
        for name in path.split("/"):
            try:
                deeper = os.open(name, OPEN_FOLDER, dir_fd=at)
            finally:
                if at != self._root:
                    os.close(at)
            at = deeper
        self._drop()
        self._kept = (path, at)
        return at

    def names(self, path: str) -> list[tuple[str, Status]]:
        """Return the entries of a folder with their own status, by name."""
        at = self.folder(path)
        found = []
        with os.scandir(at) as listed:
            for entry in listed:
                with contextlib.suppress(FileNotFoundError):
                    found.append((entry.name, Status.of(entry.stat(follow_symlinks=False))))
        return sorted(found, key=lambda each: each[0])

    def status(self, path: str) -> os.stat_result | None:
        """Return the status of an entry, None when it or a folder above it is not there."""
        folder, _, name = path.rpartition("/")
        try:
            return os.stat(name, dir_fd=self.folder(folder), follow_symlinks=False)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                return None
            raise

    def target(self, path: str) -> bytes:
        """Return what a symbolic link says."""
        folder, _, name = path.rpartition("/")
        return os.readlink(os.fsencode(name), dir_fd=self.folder(folder))

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """Open a regular file for reading. Raises OSError, or WorkFailed if it is none."""
        folder, _, name = path.rpartition("/")
        with plain_file(name, dir_fd=self.folder(folder), shown=path) as found:
            yield found

    def _drop(self) -> None:
        if self._kept is not None:
            os.close(self._kept[1])
            self._kept = None


class NotPlain(WorkFailed):
    """What was a regular file is a FIFO, a device or a folder by now; try again."""

    code = "not_a_plain_file"


@contextlib.contextmanager
def plain_file(
    name: str | os.PathLike[str],
    *,
    dir_fd: int | None = None,
    shown: str = "",
    follows: bool = False,
) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file that others may change for reading; yield it with its status.

    No FIFO and no device is waited for, and no link is followed at the end of `name` unless it
    `follows`; `name` is relative to the folder `dir_fd`, and `shown` names it for people. Who reads
    no more than the status says comes to an end. Raises NotPlain, OSError.
    """
    flags = OPEN_FILE & ~os.O_NOFOLLOW if follows else OPEN_FILE
    descriptor = os.open(name, flags, dir_fd=dir_fd)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            path = shown or os.fspath(name)
            raise NotPlain(f"{path!r} changed its kind while it was read", hint="try again")
        yield descriptor, status
    finally:
        os.close(descriptor)


def git_mode(mode: int) -> str:
    """Return git's mode for a regular file or symbolic link."""
    if stat.S_ISLNK(mode):
        return "120000"
    return "100755" if mode & stat.S_IXUSR else "100644"


__all__ = [
    "MAX_DEPTH",
    "OPEN_FILE",
    "OPEN_FOLDER",
    "NotPlain",
    "Reader",
    "Status",
    "git_mode",
    "one_of",
    "plain_file",
]
