"""Deleting trees whose names somebody hostile may have chosen: by descriptors, through no link.

A tree is left at its own mount: what is bound into it, from this file system or another, stays.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from patchyard.clients.reader import OPEN_FOLDER
from patchyard.domain.errors import StateRefusal

MOUNTINFO = Path("/proc/self/mountinfo")
DEEPEST = 64  # folders entered one below the other; what lies deeper is brought up first
WRITTEN_INTO = 64  # times that a folder is emptied again because a process still writes into it
GONE = ".gone-"  # begins the name of what is being deleted


class MountedInside(StateRefusal):
    """Something is mounted in a folder that is to be deleted."""

    code = "mounted_inside"

    def __init__(self, place: Path, mount: str) -> None:
        super().__init__(
            f"{place} is left as it is: something is mounted in it, at {mount}",
            hint=f"look what it is; `umount {mount}` lets it be returned",
        )


def remove_tree(place: Path) -> None:
    """Delete the folder or file `place` with all in it. Nothing there is fine.

    The folder that `place` lies in must be ours. Raises MountedInside, with nothing deleted where
    the mount is seen beforehand, and OSError.
    """
    for mount in mounts_below(place):
        raise MountedInside(place, mount)
    try:
        at = os.open(place.parent, OPEN_FOLDER)
    except FileNotFoundError:
        return
    try:
        _Removal(place).remove(place.name, at)
    finally:
        os.close(at)


def set_aside(place: Path) -> Path:
    """Rename `place` to what nobody takes for complete, and return where it lies now."""
    gone = place.with_name(f"{GONE}{os.getpid()}-{place.name}"[:255])
    place.rename(gone)
    return gone


def mounts_below(place: Path) -> Iterable[str]:
    """Return the mount points at `place` and below it, as the kernel knows them."""
    wanted = os.fsencode(place.absolute())
    for line in MOUNTINFO.read_bytes().splitlines():
        target = _plain(line.split(b" ")[4])
        if target == wanted or target.startswith(wanted.rstrip(b"/") + b"/"):
            yield os.fsdecode(target)


def _plain(target: bytes) -> bytes:
    """Take the octal escapes of mountinfo back."""
    return re.sub(rb"\\([0-7]{3})", lambda escape: bytes([int(escape[1], 8)]), target)


class _Removal:
    """One deletion. Everything is named by a descriptor of the folder it lies in."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._moved = 0

    def remove(self, name: str, at: int) -> None:
        """Delete `name` in the folder `at`."""
        try:
            facts = os.stat(name, dir_fd=at, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(facts.st_mode):
            self._unlink(name, at)
            return
        top = self._enter(name, at, mount_of(at))
        try:
            while self._clear(top, top, 0):
                continue  # what was brought up from the depth
            self._drop(name, at, partial(self._clear, top, top, 0))
        finally:
            os.close(top)

    def _drop(self, name: str, at: int, clear: Callable[[], object]) -> None:
        """Delete an empty folder; empty it again where a process goes on writing into it."""
        for _ in range(WRITTEN_INTO):
            try:
                os.rmdir(name, dir_fd=at)
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                    raise
                clear()
            else:
                return
        os.rmdir(name, dir_fd=at)

    def _clear(self, at: int, top: int, depth: int) -> bool:
        """Empty the folder `at`; return whether something was brought up to `top`."""
        is_more = False
        mount = mount_of(at)
        with os.scandir(at) as listed:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listed]
        for name, is_folder in entries:
            if not is_folder:
                self._unlink(name, at)
            elif depth >= DEEPEST:
                self._bring_up(name, at, top)
                is_more = True
            else:
                inner = self._enter(name, at, mount)
                try:
                    is_more |= self._clear(inner, top, depth + 1)
                    self._drop(name, at, partial(self._clear, inner, top, depth + 1))
                finally:
                    os.close(inner)
        return is_more

    def _enter(self, name: str, at: int, mount: int) -> int:
        """Return a descriptor of a folder on the same mount. Raises MountedInside."""
        try:
            inner = os.open(name, OPEN_FOLDER, dir_fd=at)
        except PermissionError:
            _unlock(name, at)
            inner = os.open(name, OPEN_FOLDER, dir_fd=at)
        if mount_of(inner) != mount:
            shown = _path_of(inner)
            os.close(inner)
            raise MountedInside(self._place, shown)
        if os.geteuid() != 0:
            with contextlib.suppress(PermissionError):
                os.fchmod(inner, stat.S_IRWXU)
        return inner

    def _unlink(self, name: str, at: int) -> None:
        try:
            os.unlink(name, dir_fd=at)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            raise MountedInside(self._place, f"{_path_of(at)}/{name}") from error

    def _bring_up(self, name: str, at: int, top: int) -> None:
        while True:
            self._moved += 1
            try:
                os.rename(name, f"{GONE}{self._moved}", src_dir_fd=at, dst_dir_fd=top)
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                    raise
                continue
            return


def mount_of(descriptor: int) -> int:
    """Return the number of the mount that a descriptor lies on."""
    text = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("mnt_id"))


def _path_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def _unlock(name: str, at: int) -> None:
    """Give a folder's owner the rights to it, through no link."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=at)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(stat.S_IRWXU)
    finally:
        os.close(descriptor)


def size_of(place: Path) -> int:
    """Return the bytes that `place` takes on its disk, each file once, through no link or mount."""
    seen: set[int] = set()
    try:
        facts = place.lstat()
    except OSError:
        return 0
    return facts.st_blocks * 512 + (
        _size_below(place, facts.st_dev, seen) if stat.S_ISDIR(facts.st_mode) else 0
    )


def _size_below(folder: Path, device: int, seen: set[int]) -> int:
    total = 0
    pending = [os.fspath(folder)]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    if facts.st_dev != device or facts.st_ino in seen:
                        continue
                    if facts.st_nlink > 1:
                        seen.add(facts.st_ino)
                    total += facts.st_blocks * 512
                    if stat.S_ISDIR(facts.st_mode):
                        pending.append(entry.path)
    return total


__all__ = [
    "DEEPEST",
    "GONE",
    "MountedInside",
    "mount_of",
    "mounts_below",
    "remove_tree",
    "set_aside",
    "size_of",
]
