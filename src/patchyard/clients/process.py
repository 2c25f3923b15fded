"""Processes by number and start time, so that a number used again is never mistaken for the old.

Finds descendants, kills trees.
"""

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

from patchyard.toolbox.ending import started_with

STOP_TIMEOUT_S = 1.0
EXEC_S = 0.01  # in which an exec that has begun shows its new environment


@dataclass(frozen=True, kw_only=True)
class ProcessRef:
    """One process for certain: its number, and when it started."""

    pid: int
    started: int  # clock ticks since boot, field 22 of /proc/PID/stat

    @property
    def is_alive(self) -> bool:
        """Whether it still runs; a zombie has ended."""
        stat = read_stat(self.pid)
        return stat is not None and stat.started == self.started and stat.state not in "ZX"


@dataclass(frozen=True, kw_only=True)
class ProcessStat:
    """What /proc says of a process."""

    pid: int
    parent: int
    state: str  # one letter: R, S, T, Z, ...
    started: int


def read_stat(pid: int) -> ProcessStat | None:
    """Return what /proc says of `pid`, None when there is no such process to be seen."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - /proc, many times a call
            text = file.read().decode("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # the last: hidepid, proc(5)
        return None
    fields = text.rpartition(")")[2].split()  # a program's name may hold spaces and parentheses
    return ProcessStat(pid=pid, state=fields[0], parent=int(fields[1]), started=int(fields[19]))


def identify(pid: int) -> ProcessRef | None:
    """Return the reference to `pid` as it is now, None when it is gone."""
    stat = read_stat(pid)
    return None if stat is None else ProcessRef(pid=pid, started=stat.started)


def kill(process: ProcessRef, signal_number: int = signal.SIGKILL) -> bool:
    """Send the signal to exactly this process; False when it is gone."""
    descriptor = _opened(process.pid)
    if descriptor is None:
        return False
    try:
        if identify(process.pid) != process:
            return False
        signal.pidfd_send_signal(descriptor, signal_number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def _opened(pid: int) -> int | None:
    """Return a descriptor of the process `pid`, None when it is gone.

    Its number may be that of a thread by now: EINVAL, from Linux 6.9 on ENOENT.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOENT}:
            raise
        return None


def wait_ended(process: ProcessRef, *, timeout_s: float) -> bool:
    """Block until the process has ended, reap it when it is ours; False after the time-out."""
    descriptor = _opened(process.pid)
    if descriptor is None:
        return True
    try:
        if identify(process.pid) == process:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(int(timeout_s * 1000)):
                return False
            reap(process.pid)
    finally:
        os.close(descriptor)
    return True


def reap(pid: int) -> None:
    """Take the exit status of an ended child, if it is one of ours."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def all_processes() -> list[ProcessStat]:
    """Return every process that can be seen."""
    with os.scandir("/proc") as entries:
        stats = [read_stat(int(entry.name)) for entry in entries if entry.name.isdecimal()]
    return [stat for stat in stats if stat is not None]


def tasks_of(uid: int) -> int:
    """Return how many processes and threads run as that user, as RLIMIT_NPROC counts them."""
    found = 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and entry.stat().st_uid == uid:
                    found += len(os.listdir(f"{entry.path}/task"))  # noqa: PTH208 - names alone
    return found


def descendants(root: int, stats: Iterable[ProcessStat]) -> list[ProcessRef]:
    """Return the living descendants of `root` among `stats`, without it. Pure."""
    by_parent: dict[int, list[ProcessStat]] = {}
    for stat in stats:
        by_parent.setdefault(stat.parent, []).append(stat)
    found: list[ProcessRef] = []
    pending = [root]
    while pending:
        for child in by_parent.get(pending.pop(), ()):
            pending.append(child.pid)
            if child.state not in "ZX":
                found.append(ProcessRef(pid=child.pid, started=child.started))
    return found


def marked(marker: str, stats: Iterable[ProcessStat]) -> list[ProcessRef]:
    """Return the living processes whose first environment holds `marker` (NAME=value).

    Where a process shows its environment to root alone, as toolboxes do, `marker` has to be an
    argument of its own in its command line.
    """
    needle = os.fsencode(marker)
    return [
        ProcessRef(pid=stat.pid, started=stat.started)
        for stat in stats
        if stat.state not in "ZX" and needle in started_with(stat.pid)
    ]


def kill_while_starting(root: ProcessRef) -> None:
    """Kill a process that may be forking right now, with the children it has by then."""
    kill(root, signal.SIGSTOP)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while (stat := read_stat(root.pid)) and stat.state not in "TtZX":
        if stat.started != root.started or time.monotonic() > deadline:
            break
        time.sleep(0.0005)  # a system call it is in, such as clone, ends first
    for process in (*descendants(root.pid, all_processes()), root):
        kill(process)


def kill_tree(root: ProcessRef | None, *, marker: str, timeout_s: float) -> bool:
    """Kill `root`, all below it and all that carry `marker`; False when some are left in time.

    The root dies last: as a subreaper it keeps what forks away below itself.
    """
    deadline = time.monotonic() + timeout_s
    quiet_looks = 0
    while quiet_looks < 2:  # in the middle of an exec a process shows no environment
        stats = all_processes()
        is_root_alive = root is not None and root.is_alive
        targets = set(marked(marker, stats))
        if root is not None and is_root_alive:
            targets.update(descendants(root.pid, stats))
            targets.discard(root)
        quiet_looks = 0 if targets else quiet_looks + 1
        if quiet_looks == 1 and not is_root_alive:  # then only its environment gives one away
            time.sleep(EXEC_S)
        for target in targets:
            kill(target, signal.SIGSTOP)
        for target in targets:
            kill(target)
        if time.monotonic() > deadline:
            return False
        for target in targets:
            wait_ended(target, timeout_s=max(0.0, deadline - time.monotonic()))
    if root is None or not kill(root):
        return True
    return wait_ended(root, timeout_s=max(0.1, deadline - time.monotonic()))


__all__ = [
    "STOP_TIMEOUT_S",
    "ProcessRef",
    "ProcessStat",
    "all_processes",
    "descendants",
    "identify",
    "kill",
    "kill_tree",
    "kill_while_starting",
    "marked",
    "read_stat",
    "reap",
    "tasks_of",
    "wait_ended",
]
