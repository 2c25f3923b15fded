"""Moves what was made into place so that a machine that loses its power has it whole or not."""

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from patchyard.domain.machine import Unsynced

LOST = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})  # of fsync(2), for what was written

_libc = ctypes.CDLL(None, use_errno=True)


def put_in_place(made: Path, place: Path) -> None:
    """Rename the folder `made` to `place`, all of it on disk before, the new name after.

    Raises OSError when something is there already, or the disk refuses.
    """
    sync_file_system(made)
    made.rename(place)
    sync_folder(place.parent)


def put_file(made: Path, place: Path) -> None:
    """Rename the file `made`, which is on the disk, to `place` in one step, its new name after it.

    What is there is replaced. Raises OSError when the disk refuses.
    """
    made.replace(place)
    sync_name(place)


def sync_name(place: Path) -> None:
    """Write the name of `place` to the disk, where its file system can: it was put or removed."""
    sync_folders_above([place.name], place.parent)


def sync(descriptor: int) -> None:
    """Write a file to the disk. Raises Unsynced, an OSError, where the disk did not take it."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in LOST:
            raise Unsynced(error.errno, error.strerror) from error
        raise


def sync_file_system(path: Path) -> None:
    """Write all that the file system of `path` holds back to the disk: syncfs(2)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise Unsynced(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Write the names in `folder` to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def sync_folders_above(paths: Iterable[str], top: Path) -> None:
    """Write the names of all folders from those that `paths` below `top` lie in up to `top`.

    A folder that is not there (any more) is passed over, and one behind a link; so is a file system
    that syncs none.
    """
    folders = {top}
    for path in paths:
        while (path := path.rpartition("/")[0]) and top / path not in folders:
            folders.add(top / path)
    own = {top}
    for folder in sorted(folders):  # a folder comes after those above it
        if folder.parent in own and not folder.is_symlink():
            own.add(folder)
    for folder in sorted(own, reverse=True):  # the deepest first
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            try:
                sync_folder(folder)
            except OSError as error:
                if error.errno not in {errno.EINVAL, errno.EOPNOTSUPP}:
                    raise


__all__ = [
    "put_file",
    "put_in_place",
    "sync",
    "sync_file_system",
    "sync_folder",
    "sync_folders_above",
    "sync_name",
]
