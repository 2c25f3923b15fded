"""Room on the disk: enough to begin, and a reserve to bring what runs to an orderly stop."""

import contextlib
import math
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from patchyard.clients.filesystems import source
from patchyard.domain.errors import NoRoom, PatchyardError, Unavailable
from patchyard.domain.machine import is_full_disk, read_only

MIB = 1024**2
RESERVE_BYTES = 16 * MIB
FEWEST_FILES = 2000  # inodes that a plan begins with
SCARCE_FILES = 2000  # what failed for lack of an inode has deleted some of its files since
ENOUGH_BYTES = 64 * MIB  # where so much is free, room for bytes is not what was lacking
INODES = "no inodes (places for files) are left"
FULL = "disk is full"  # as our own stores say it
PORTION_BYTES = MIB  # some hundred events


def require_writable(home: Path) -> None:
    """Raise Unavailable where the home is there and this user cannot write to it."""
    if home.exists() and not os.access(home, os.W_OK):
        raise read_only(str(home))


class DiskRoom:
    """contracts.room.Room over the folders that plans write to."""

    def __init__(self, folders: Sequence[Path], needed: Callable[[], int]) -> None:
        """Take the folders, made or not, the home first, and what says how much must be free."""
        self._folders = folders
        self._needed = needed

    def require(self) -> None:
        """See contracts.room.Room."""
        require_writable(self._folders[0])
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

    def explained(self, error: PatchyardError) -> PatchyardError:
        """See contracts.room.Room."""
        return explained(error, self._folders)


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


def explained(error: PatchyardError, folders: Sequence[Path]) -> PatchyardError:
    """Return `error`; where a disk has no place for another file it says so, with device and cure.

    The kernel has one word for both, "No space left on device".
    """
    if not (isinstance(error, Unavailable) and _speaks_of_room(error.message)):
        return error
    named = error.details.get("path")
    asked = [*folders, *([Path(named).parent] if isinstance(named, str) else [])]
    lacking = next(filter(lacks_files, asked), None)
    if lacking is not None and INODES not in error.message:
        place = _existing(lacking)
        error.message += f": {INODES} on {_device(place)}, where {lacking} lies"
        error.args = (error.message,)
        error.hint = (
            f"delete files there: `df -i {shlex.quote(str(place))}` counts them, `agents gc`"
            " returns what no plan needs; then do the same again, nothing is lost"
        )
        error.details["inodes"] = {"folder": str(lacking), "free": int(free_files(lacking))}
    return error


def lacks_files(folder: Path) -> bool:
    """Whether files, and not bytes, are what a disk has no room for."""
    return free_files(folder) < SCARCE_FILES and free_bytes(folder) >= ENOUGH_BYTES


def _speaks_of_room(said: str) -> bool:
    return FULL in said or is_full_disk(said)


def _device(folder: Path) -> str:
    """Return the name of the device that a folder lies on, or where it is mounted."""
    number = folder.stat().st_dev
    return source(f"{os.major(number)}:{os.minor(number)}") or "its file system"


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _mebibytes(size: int) -> str:
    return f"{size / MIB:,.0f} MiB"


__all__ = [
    "FEWEST_FILES",
    "FULL",
    "PORTION_BYTES",
    "RESERVE_BYTES",
    "Ballast",
    "DiskRoom",
    "explained",
    "free_bytes",
    "free_files",
    "lacks_files",
    "require_writable",
]
