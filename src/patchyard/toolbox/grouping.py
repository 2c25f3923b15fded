"""A control group on a host, which counts the processes of one environment and no other's."""

from __future__ import annotations

import contextlib
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

FILESYSTEM = "/sys/fs/cgroup"
MEMBERSHIP = "/proc/self/cgroup"
NOTE = "group"  # the file of an environment's folder that says where it lies
LEAVING_S = 1.0  # a process that has just ended may hold one for some ms


def parent(filesystem: str = FILESYSTEM, membership: str = MEMBERSHIP) -> str:
    """Return the folder of a group in which one that counts processes can be made; empty: none."""
    for place in _candidates(filesystem, membership):
        if os.access(os.path.join(place, "cgroup.procs"), os.W_OK):
            return place
    return ""


def _candidates(filesystem: str, membership: str) -> Iterator[str]:
    try:
        with open(membership, encoding="utf-8") as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return
    own = {name: path for _, names, path in rows for name in names.split(",")}
    if not os.path.exists(os.path.join(filesystem, "cgroup.controllers")):
        if "pids" in own:
            yield os.path.normpath(filesystem + "/pids/" + own["pids"])
        return
    path = own.get("", "/")
    while path.strip("/"):  # one with processes gives its controllers to none below it
        path = os.path.dirname(path)
        place = os.path.normpath(filesystem + "/" + path)
        if "pids" in _words(os.path.join(place, "cgroup.subtree_control")):
            yield place


def _words(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().split()
    except OSError:
        return []


def begin(folder: str, name: str, processes: int, pid: int, where: str = "") -> None:
    """Make a group for `processes` at once, put `pid` there, and note it. Raises OSError."""
    group = os.path.join(where or parent(), name)
    with open(os.path.join(folder, NOTE), "w", encoding="utf-8") as file:
        file.write(group)
    os.mkdir(group)
    for key, value in (("pids.max", processes), ("cgroup.procs", pid)):
        with open(os.path.join(group, key), "w", encoding="ascii") as file:
            file.write(str(value))


def end(folder: str) -> None:
    """Remove the group that is noted there, where there is one, once nobody is in it."""
    try:
        with open(os.path.join(folder, NOTE), encoding="utf-8") as file:
            group = file.read()
    except OSError:
        return
    deadline = time.monotonic() + LEAVING_S
    while os.path.isdir(group) and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            os.rmdir(group)
            return
        time.sleep(0.002)


__all__ = ["FILESYSTEM", "LEAVING_S", "MEMBERSHIP", "NOTE", "begin", "end", "parent"]
