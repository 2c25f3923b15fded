"""Locks between processes, as files of ours that the kernel frees when their owner dies."""

import asyncio
import contextlib
import fcntl
import os
import re
import time
from collections.abc import AsyncIterator, Collection, Iterator
from pathlib import Path

from patchyard.clients.process import ProcessRef, kill, read_stat
from patchyard.domain.errors import Conflict

PAUSE_S = 0.02
STUCK_S = 5.0  # that something is waited for, before a look at who holds it; below DEAD_S
LOOK_S = 1.0  # between two looks
STOPPED = "T"  # the state of a process that waits for SIGCONT, proc(5)
LOCKS = Path("/proc/locks")  # proc(5); who waits for a lock has an arrow in its line
HELD = re.compile(
    r"\d+: \S+ +\S+ +(?P<kind>READ|WRITE) +(?P<pid>\d+) \S+:(?P<inode>\d+)"
    r" (?P<start>\d+) (?P<end>\d+|EOF)"
)


@contextlib.contextmanager
def locked(path: Path, *, timeout_s: float = 600.0) -> Iterator[None]:
    """Hold the lock `path` (made when missing). Raises Conflict when it stays taken.

    A holder that is stopped is killed after a while: all others would wait for it for good.
    Whoever holds it may delete the file: who waited then waits for the new one.
    """
    watch = _Watch(path, timeout_s)
    while (descriptor := taken(path)) is None:
        watch.look()
        time.sleep(PAUSE_S)
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.asynccontextmanager
async def locked_patiently(path: Path, *, timeout_s: float = 600.0) -> AsyncIterator[None]:
    """As `locked`, for a task: it can be cancelled while it waits, and keeps no thread busy."""
    watch = _Watch(path, timeout_s)
    while (descriptor := taken(path)) is None:
        watch.look()
        await asyncio.sleep(PAUSE_S)
    try:
        yield
    finally:
        os.close(descriptor)


class _Watch:
    """Who waits for a lock looks now and then at who holds it, and gives up in the end."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._began = time.monotonic()
        self._look_s = STUCK_S

    def look(self) -> None:
        """Kill a holder that is stopped. Raises Conflict when the time is over."""
        waited_s = time.monotonic() - self._began
        if waited_s > self._look_s:
            self._look_s = waited_s + LOOK_S
            end_stopped_holders(self._path)
        if waited_s > self._timeout_s:
            found = " ".join(map(str, holders(self._path)))
            who = f"process {found}" if found else "another process"
            raise Conflict(f"{who} holds {self._path}", hint="wait for it, or end it")


def taken(path: Path) -> int | None:
    """Take the lock `path` (made when missing) and return the descriptor whose close frees it.

    None while another holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether the file that is locked is the one that others will find."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def holders(path: Path, *, byte: int = 0, kinds: Collection[str] = ("WRITE",)) -> list[int]:
    """Return the processes that hold a lock over `byte` of a file, as far as they are seen here.

    `kinds`: WRITE for a lock that excludes others, READ for one that is shared.

    The file is not opened: closing it would let go of this process's own locks of it (fcntl(2)).
    """
    try:
        status = path.stat()
    except OSError:
        return []
    return [int(pid) for pid in _listed(status, byte, kinds) if _has_open(pid, status)]


def is_held(path: Path, *, byte: int = 0, kinds: Collection[str] = ("WRITE",)) -> bool:
    """Whether a process, of this container or another, holds a lock as for `holders`.

    May be true for a lock of a file on another device, which has the same inode number.
    """
    try:
        return any(_listed(path.stat(), byte, kinds))
    except OSError:
        return False


def _listed(status: os.stat_result, byte: int, kinds: Collection[str]) -> Iterator[str]:
    """Yield the process of each lock over a byte of a file with that inode number."""
    try:
        lines = LOCKS.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return
    for line in filter(None, map(HELD.fullmatch, lines)):
        is_there = int(line["start"]) <= byte and (line["end"] == "EOF" or int(line["end"]) >= byte)
        if is_there and line["kind"] in kinds and int(line["inode"]) == status.st_ino:
            yield line["pid"]


def _has_open(pid: str, status: os.stat_result) -> bool:
    """Whether a process has that very file open; devices have other numbers in /proc/locks."""
    with contextlib.suppress(OSError):
        for place in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.path.samestat(place.stat(), status):
                    return True
    return False


def end_stopped_holders(path: Path) -> None:
    """Kill who holds a lock of a file and is stopped."""
    for pid in holders(path):
        end_stopped(pid)


def end_stopped(pid: int) -> None:
    """Kill a process that is stopped: by itself it would never let go of what others need."""
    stat = read_stat(pid)
    if stat is not None and stat.state == STOPPED:
        with contextlib.suppress(OSError):
            kill(ProcessRef(pid=pid, started=stat.started))


__all__ = [
    "LOCKS",
    "LOOK_S",
    "PAUSE_S",
    "STUCK_S",
    "end_stopped",
    "end_stopped_holders",
    "holders",
    "is_at",
    "is_held",
    "locked",
    "locked_patiently",
    "taken",
]
