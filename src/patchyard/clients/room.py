"""Room on the disk: enough to begin, and a reserve to bring what runs to an orderly stop."""

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from patchyard.domain.errors import NoRoom
from patchyard.domain.keeping import UNITS

RESERVE_BYTES = 16 * 1024**2  # some thousand events


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
            if free < needed:
                raise NoRoom(
                    f"{_mebibytes(free)} are free at {folder}, and a plan begins with"
                    f" {_mebibytes(needed)} at least",
                    hint="`agents gc` returns what no plan needs, `agents disk` shows what lies"
                    " where; `keep: {free: 512MiB}` in your settings lowers the bound",
                    details={"free_bytes": free, "needed_bytes": needed, "folder": str(folder)},
                )


class Ballast:
    """A file that does nothing but take room, until the journal needs that."""

    def __init__(self, path: Path, *, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size = size

    def load(self, *, needed: int) -> None:
        """Take the room, where `needed` bytes stay free beside it. Nothing happens otherwise."""
        if self._path.exists() or free_bytes(self._path.parent) < needed + self._size:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with contextlib.suppress(OSError):  # another engine was quicker, or there is no room
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self._size)
            finally:
                os.close(descriptor)

    def drop(self) -> bool:
        """Give the room back; return whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True


def free_bytes(folder: Path) -> int:
    """Return what this user may still write there, or where the folder would be made."""
    while not folder.exists():
        folder = folder.parent
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


def _mebibytes(size: int) -> str:
    return f"{size / UNITS['MiB']:,.0f} MiB"


__all__ = ["RESERVE_BYTES", "Ballast", "DiskRoom", "free_bytes"]
