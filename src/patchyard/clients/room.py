"""Room on the disk: enough to begin, and a reserve to bring what runs to an orderly stop."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from patchyard.domain.errors import NoRoom

MIB = 1024**2
RESERVE_BYTES = 16 * MIB
FEWEST_FILES = 2000  # inodes
PORTION_BYTES = MIB  # some hundred events


class DiskRoom:
    """contracts.room.Room over the folders that plans write to."""

    def __init__(self, folders: Sequence[Path], needed: Callable[[], int]) -> None:
        """Take the folders, made or not, and what says how many bytes must be free."""
        self._folders = folders
        self._needed = needed

    def require(self) -> None:
        """See contracts.room.Room."""
        needed = self._needed()
        for folder in self._folders:
            free = free_bytes(folder)
            left = free_files(folder)
            if left < FEWEST_FILES:
                raise NoRoom(
                    f"there is room for {left} more files at {folder}, and a plan begins with"
                    f" {FEWEST_FILES} at least",
                    hint="`agents gc` returns what no plan needs; `df -i` shows who has them",
                    details={"free_files": left, "folder": str(folder)},
                )
            if free < needed:
                raise NoRoom(
                    f"{_mebibytes(free)} are free at {folder}, and a plan begins with"
                    f" {_mebibytes(needed)} at least",
                    hint="`agents gc` returns what no plan needs, `agents disk` shows what lies"
                    " where; `keep: {free: 512MiB}` in your settings lowers the bound",
                    details={"free_bytes": free, "needed_bytes": needed, "folder": str(folder)},
                )


class Ballast:
    """A file that does nothing but take room, until the journal needs that.

    It is given up in portions: whoever else fills the disk gets hold of one at most.
    """

    def __init__(
        self, path: Path, *, size: int = RESERVE_BYTES, portion: int = PORTION_BYTES
    ) -> None:
        self._path = path
        self._size = size
        self._portion = portion

    def load(self, *, needed: int) -> None:
        """Take the room, where `needed` bytes stay free beside it. Nothing happens otherwise."""
        try:
            taken = self._path.lstat().st_size
        except FileNotFoundError:
            taken = 0
        if taken >= self._size or free_bytes(self._path.parent) < needed + self._size - taken:
            return
        with contextlib.suppress(OSError), self._opened(os.O_CREAT) as descriptor:
            os.posix_fallocate(descriptor, 0, self._size)

    def drop(self) -> bool:
        """Give a portion back; return whether there was one."""
        try:
            with self._opened(0) as descriptor:
                left = os.fstat(descriptor).st_size - self._portion
                os.ftruncate(descriptor, max(0, left))
            if left <= 0:
                self._path.unlink()
        except OSError:
            return False
        return True

    @contextlib.contextmanager
    def _opened(self, flags: int) -> Iterator[int]:
        flags |= os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def free_bytes(folder: Path) -> int:
    """Return what this user may still write there, or where the folder would be made."""
    facts = os.statvfs(_existing(folder))
    return facts.f_bavail * facts.f_frsize


def free_files(folder: Path) -> float:
    """Return how many files may still be made there; without end where nobody counts them."""
    facts = os.statvfs(_existing(folder))
    return facts.f_favail if facts.f_files else math.inf


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _mebibytes(size: int) -> str:
    return f"{size / MIB:,.0f} MiB"


__all__ = ["PORTION_BYTES", "RESERVE_BYTES", "Ballast", "DiskRoom", "free_bytes", "free_files"]
