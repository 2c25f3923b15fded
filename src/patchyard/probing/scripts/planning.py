"""Writes to a workspace that is only to be read."""

from __future__ import annotations

import mmap
import os

from .kit import LIBC, call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096
MNT_DETACH = 2


def write(given: Given) -> None:
    """Write over a file."""
    with open(given["planned"], "w", encoding="ascii") as file:
        file.write("written")


def create(given: Given) -> None:
    """Make a file."""
    with open(given["spot"], "w", encoding="ascii") as file:
        file.write("new")


def delete(given: Given) -> None:
    """Delete a file."""
    os.unlink(given["planned"])


def rename(given: Given) -> None:
    """Give a file another name."""
    os.rename(given["planned"], given["spot"])


def link(given: Given) -> None:
    """Give a file a second name."""
    os.link(given["planned"], given["spot"])


def change_mode(given: Given) -> None:
    """Change who may do what with a file."""
    os.chmod(given["planned"], 0o4711)


def change_times(given: Given) -> None:
    """Change a file's times."""
    os.utime(given["planned"], (1, 1))


def truncate(given: Given) -> None:
    """Cut a file off."""
    os.truncate(given["planned"], 0)


def reopen(given: Given) -> None:
    """Open a file for reading, and that descriptor again for writing."""
    reading = os.open(given["planned"], os.O_RDONLY)
    writing = os.open("/proc/self/fd/%d" % reading, os.O_WRONLY)
    os.write(writing, b"written")


def map_memory(given: Given) -> None:
    """Write through memory that is the file."""
    with open(given["planned"], "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:7] = b"written"


def remount(given: Given) -> None:
    """Mount the workspace anew, for writing."""
    place = given["workspace"].encode()
    if given["control"]:  # as it is inside, in namespaces of our own
        call("mount", place, place, None, MS_BIND, None)
        call("mount", None, place, None, MS_BIND | MS_REMOUNT | MS_RDONLY, None)
    call("mount", None, place, None, MS_BIND | MS_REMOUNT, None)
    write(given)


def mount_over(given: Given) -> None:
    """Write through the same folder, mounted once more elsewhere."""
    other = "/tmp/patchyard-" + given["token"]  # noqa: S108 - in namespaces of our own
    os.mkdir(other)
    try:
        call("mount", given["workspace"].encode(), other.encode(), None, MS_BIND, None)
        with open(os.path.join(other, given["inner"], "planned"), "w", encoding="ascii") as file:
            file.write("written")
    finally:
        LIBC.umount2(other.encode(), MNT_DETACH)
        os.rmdir(other)


__all__ = [
    "MNT_DETACH",
    "MS_BIND",
    "MS_RDONLY",
    "MS_REMOUNT",
    "change_mode",
    "change_times",
    "create",
    "delete",
    "link",
    "map_memory",
    "mount_over",
    "remount",
    "rename",
    "reopen",
    "truncate",
    "write",
]
