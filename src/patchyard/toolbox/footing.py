"""Ways through a tree by descriptors, following no link, past what its owner closed to itself."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time

PASSING = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
STAGED = b".patchyard-replica-"  # begins the name of a file that is not whole yet
STAGED_NAME = re.compile(re.escape(STAGED) + b"[0-9a-f]{16}")
STALE_S = 60.0  # after which nobody writes to it any more

Path = str  # from the root, with `/`; bytes that are no UTF-8 as lone surrogates


def as_path(raw: bytes) -> Path:
    """Return a name or target as it travels."""
    return raw.decode("utf-8", "surrogateescape")


def raw_of(path: Path) -> bytes:
    """Return a path as the system has it. Raises UnicodeEncodeError for what is none."""
    return path.encode("utf-8", "surrogateescape")


def is_staged(name: bytes, status: os.stat_result) -> bool:
    """Whether it is a file that is not whole yet; such a name is ours alone."""
    return STAGED_NAME.fullmatch(name) is not None and stat.S_ISREG(status.st_mode)


class Footing:
    """An open root, and what was opened or lent on the way."""

    def __init__(self, root: str) -> None:
        """Open the root. Raises OSError when it is no folder."""
        self.root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._kept: tuple[bytes, int] | None = None
        self._lent: list[tuple[int, int]] = []

    def close(self) -> None:
        """Release the descriptors. Idempotent."""
        self.give_back()
        if self.root >= 0:
            os.close(self.root)
            self.root = -1

    def parent(self, path: Path) -> tuple[int, bytes]:
        """Return the folder that `path` lies in, and its name there.

        The folder is valid until the next call or `give_back`. Raises OSError where a component is
        missing, no folder, or a link.
        """
        folder, _, name = raw_of(path).rpartition(b"/")
        if not folder:
            return self.root, name
        if self._kept is not None and self._kept[0] == folder:
            return self._kept[1], name
        at = os.dup(self.root)
        for component in folder.split(b"/"):
            try:
                deeper = self.opened(at, component, PASSING)
            finally:
                os.close(at)
            at = deeper
        self._drop()
        self._kept = (folder, at)
        return at, name

    def opened(self, at: int, name: bytes, flags: int) -> int:
        """Open an entry of the folder `at`; where its owner is shut out, that is lent the right.

        Never through a link. Raises OSError.
        """
        try:
            return os.open(name, flags, dir_fd=at)
        except PermissionError:
            self.lend(at)
        try:
            return os.open(name, flags, dir_fd=at)
        except PermissionError:
            handle = os.open(name, HANDLE, dir_fd=at)
        try:
            if stat.S_ISLNK(os.fstat(handle).st_mode):
                raise PermissionError
            self.lend(handle)
        finally:
            os.close(handle)
        return os.open(name, flags, dir_fd=at)

    def names(self, at: int) -> list[tuple[bytes, os.stat_result]]:
        """Return the entries of an open folder with their status, but for what is not whole yet."""
        found = []
        with os.scandir(at) as listed:
            for entry in listed:
                name = os.fsencode(entry.name)
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except PermissionError:
                    self.lend(at)
                    status = os.stat(name, dir_fd=at, follow_symlinks=False)
                if is_staged(name, status):
                    if time.time() - status.st_mtime >= STALE_S:
                        self._unstage(at, name)
                else:
                    found.append((name, status))
        return found

    def sweep(self) -> None:
        """Delete what killed lives had not finished at the root; nobody else writes there now."""
        try:
            for each in os.listdir(self.root):
                name = os.fsencode(each)
                with contextlib.suppress(FileNotFoundError, PermissionError):
                    status = os.stat(name, dir_fd=self.root, follow_symlinks=False)
                    if is_staged(name, status):
                        self.lend(self.root)  # an agent may have closed it to itself
                        self._unstage(self.root, name)
        finally:
            self.give_back()

    def _unstage(self, at: int, name: bytes) -> None:
        """Delete what a killed life had not finished."""
        try:
            os.unlink(name, dir_fd=at)
        except OSError:
            return

    def lend(self, descriptor: int) -> None:
        """Let the owner do all with what is open, until `give_back`. Raises PermissionError."""
        status = os.fstat(descriptor)
        wanted = stat.S_IMODE(status.st_mode) | stat.S_IRWXU
        if wanted == stat.S_IMODE(status.st_mode):
            return
        os.chmod("/proc/self/fd/%d" % descriptor, wanted)
        self._lent.append((os.dup(descriptor), stat.S_IMODE(status.st_mode)))

    def give_back(self) -> None:
        """Close what was kept open, and take back what was lent."""
        self._drop()
        while self._lent:
            descriptor, mode = self._lent.pop()
            try:
                os.chmod("/proc/self/fd/%d" % descriptor, mode)
            finally:
                os.close(descriptor)

    def _drop(self) -> None:
        if self._kept is not None:
            os.close(self._kept[1])
            self._kept = None


__all__ = [
    "HANDLE",
    "PASSING",
    "STAGED",
    "STAGED_NAME",
    "STALE_S",
    "Footing",
    "Path",
    "as_path",
    "is_staged",
    "raw_of",
]
