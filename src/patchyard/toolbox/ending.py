"""Ends a tree of processes on the machine it runs on: by its root, and by a mark they carry."""

from __future__ import annotations

import contextlib
import os
import signal
import time

ENDING_S = 2.5
MARK = "PATCHYARD_ENVIRONMENT"
PAUSE_S = 0.005


def stat_of(pid: int) -> tuple[int, int]:
    """Return parent and start time of a process; zeros of one that is gone or a zombie."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0, 0
    return (0, 0) if fields[0] in b"ZX" else (int(fields[1]), int(fields[19]))


def is_alive(root: dict[str, int]) -> bool:
    """Whether it is still the process that started then."""
    return root["started"] != 0 and stat_of(root["pid"])[1] == root["started"]


def _tree(root: int, mark: str) -> set[int]:
    """Return those that carry the mark, and all processes below them and `root` (0: none)."""
    needle = os.fsencode("%s=%s" % (MARK, mark))
    children: dict[int, list[int]] = {}
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        parent, started = stat_of(int(name))
        if started:
            children.setdefault(parent, []).append(int(name))
            if needle in started_with(int(name)):
                found.add(int(name))
    pending = {root, *found} - {0}
    while pending:
        below = set(children.get(pending.pop(), ())) - found
        found |= below
        pending |= below
    return found - {root, os.getpid()}


def started_with(pid: int, part: str = "environ") -> list[bytes]:
    """Return the environment of a process; where it shows that to root alone, its arguments."""
    try:
        with open("/proc/%d/%s" % (pid, part), "rb") as file:
            return file.read().split(b"\0")
    except PermissionError:
        return started_with(pid, "cmdline") if part == "environ" else []
    except OSError:  # it is gone
        return []


def kill(root: dict[str, int] | None, mark: str) -> bool:
    """Kill a whole tree, its root last: as a subreaper it keeps what forks away. False: in vain."""
    deadline = time.monotonic() + ENDING_S
    quiet = 0
    while quiet < 2:  # in the middle of an exec a process shows no environment
        top = root["pid"] if root is not None and is_alive(root) else 0
        targets = _tree(top, mark)
        quiet = 0 if targets else quiet + 1
        _send(targets, signal.SIGSTOP)
        _send(targets, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_S)
    if root is None:
        return True
    while is_alive(root):
        _send({root["pid"]}, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_S)
    return True


def _send(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):  # gone, or somebody else's
            os.kill(pid, number)


__all__ = ["ENDING_S", "MARK", "PAUSE_S", "is_alive", "kill", "started_with", "stat_of"]
