"""The processes below this one: their memory, what they spent, and an end for all of them.

This process becomes their reaper, so that none escapes by losing its parent.
"""

import contextlib
import ctypes
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Memory", "Spent", "become_reaper", "below", "end_all", "memory", "reap", "spent"]

PR_SET_CHILD_SUBREAPER = 36
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Of a process tree at one moment, bytes."""

    rss: int
    pss: int  # shared pages counted once; as rss where the kernel does not tell


@dataclass(frozen=True, kw_only=True)
class Spent:
    """By a process tree so far, with the children that it waited for."""

    calls: int  # bytes given to write(): files, pipes and terminals
    disk: int  # bytes that dirtied pages of a disk
    cpu_s: float


def become_reaper() -> None:
    """Adopt every descendant whose parent ends."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def below(root: int) -> list[int]:
    """Return the descendants of `root` and itself, parents first."""
    found = [root]
    for pid in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def memory(root: int) -> Memory:
    """Return what the tree below `root` holds, without `root` itself where that is this process."""
    rss = pss = 0
    for pid in below(root):
        if pid == os.getpid():
            continue
        with contextlib.suppress(OSError, IndexError):
            held = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
            rss += held
            pss += _pss(pid) or held
    return Memory(rss=rss, pss=pss)


def _pss(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def spent(root: int) -> Spent:
    """Return what the tree below `root` has spent, without this process itself."""
    calls = disk = ticks = 0
    for pid in below(root):
        if pid == os.getpid():
            continue
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
            facts = {name: int(value) for name, _, value in (line.partition(":") for line in lines)}
            times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
            calls += facts["wchar"]
            disk += facts["write_bytes"]
            ticks += sum(map(int, times))
    return Spent(calls=calls, disk=disk, cpu_s=ticks / TICKS)


def reap() -> None:
    """Take in the ended children that were adopted."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end_all(*, within_s: float = 5.0) -> None:
    """Kill every descendant of this process."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        reap()
        left = below(os.getpid())[1:]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    raise RuntimeError(f"processes that do not end: {below(os.getpid())[1:]}")
