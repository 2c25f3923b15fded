"""A folder where contents wait until they are moved in, held open while it is used.

It lies in a folder that another user may write, who could put another folder or a link in its
place: all that is made in it, and all that is deleted, goes by a descriptor.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from patchyard.clients.reader import OPEN_FOLDER
from patchyard.clients.removal import mount_of

OWN = 0o700
OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH
FOLDERS = ("in", "back")
"""What a stage holds; earlier versions put the contents right into it."""
CONTENT = re.compile(r"[0-9]+")


@contextlib.contextmanager
def stage(place: Path, name: str) -> Iterator[Path]:
    """Yield the fresh folder `name` in `place`, as a path by its descriptor; both go at the end.

    `name` is one of FOLDERS, and what is made in it has numbers as names. Raises OSError, also
    where what lies at `place` is a link or another user's.
    """
    with _opened(place.parent, OPEN_FOLDER & ~os.O_NOFOLLOW) as above:
        with contextlib.suppress(FileExistsError):
            os.mkdir(place.name, OWN, dir_fd=above)
        with _own(place.name, above) as at:
            _clear(name, at)
            try:
                os.mkdir(name, OWN, dir_fd=at)
                with _opened(name, OPEN_FOLDER, at=at) as inner:
                    yield Path(f"/proc/self/fd/{inner}")
            finally:
                _clear(name, at)
                with contextlib.suppress(OSError):
                    os.rmdir(place.name, dir_fd=above)


def sweep(name: str, at: int) -> None:
    """Delete the stage `name` in the folder `at`, which a killed process left, where it is ours.

    Deletes contents by their numbers and empty folders, nothing else: another user can have put any
    folder there under that name, one with files of ours or a mount of ours in it as well.
    """
    for folder in FOLDERS:
        with contextlib.suppress(OSError), _own(name, at) as held:
            _clear(folder, held)
    _clear(name, at)


def _clear(name: str, at: int) -> None:
    """Delete a folder of contents, and keep it where it holds anything else or is not ours."""
    with contextlib.suppress(OSError):
        with _own(name, at) as held:
            for each in os.listdir(held):  # noqa: PTH208 - of a descriptor
                if CONTENT.fullmatch(each):
                    with contextlib.suppress(OSError):  # a folder, or something mounted
                        os.unlink(each, dir_fd=held)
        os.rmdir(name, dir_fd=at)


@contextlib.contextmanager
def _own(name: str, at: int) -> Iterator[int]:
    """Hold a folder of ours open, which no other user may write and nothing is mounted at.

    Raises OSError for any other.
    """
    with _opened(name, OPEN_FOLDER, at=at) as held:
        facts = os.fstat(held)
        if facts.st_uid != os.geteuid() or facts.st_mode & OF_OTHERS:
            raise OSError(errno.EPERM, "it is another user's, or others may write it", name)
        if mount_of(held) != mount_of(at):
            raise OSError(errno.EXDEV, "something is mounted there", name)
        yield held


@contextlib.contextmanager
def _opened(place: str | Path, flags: int, *, at: int | None = None) -> Iterator[int]:
    descriptor = os.open(place, flags, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


__all__ = ["CONTENT", "FOLDERS", "stage", "sweep"]
