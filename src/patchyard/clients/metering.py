"""Counts from outside what a local environment uses: by its control group, else through /proc.

Files of counters stay open, so that a reading is a handful of system calls.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping

from patchyard.clients.berths import from_details, group_of
from patchyard.clients.growth import Disk
from patchyard.clients.lasting import Lasting
from patchyard.domain.environment import TASKS, EnvironmentHandle
from patchyard.domain.usage import Reading

COUNTER_BYTES = 4096
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
NANO, MICRO = 1_000_000_000, 1_000_000


def _number(text: bytes) -> int:
    return int(text)


def _field(name: bytes) -> Callable[[bytes], int]:
    """Return what finds the number behind `name` in lines of pairs."""

    def find(text: bytes) -> int:
        rows = (line.split() for line in text.splitlines())
        return next(int(row[1]) for row in rows if row[:1] == [name])

    return find


class Counter:
    """One file of the kernel's that holds a number. What cannot be read counts nothing."""

    def __init__(
        self, places: Iterable[str], names: Mapping[str, Callable[[bytes], int]], *, flags: int
    ) -> None:
        self._descriptor = -1
        self._lock = threading.Lock()  # a look in another thread may outlive its meter
        for place in places:
            for name, parse in names.items():
                with contextlib.suppress(OSError):
                    self._descriptor = os.open(f"{place}/{name}", flags | os.O_CLOEXEC)
                    self._parse, self.name = parse, name
                    return

    def read(self) -> int | None:
        """Return the number as it is now."""
        try:
            with self._lock:
                if self._descriptor < 0:
                    return None
                return self._parse(os.pread(self._descriptor, COUNTER_BYTES, 0))
        except (OSError, ValueError, StopIteration):
            return None

    def reset(self) -> None:
        """Let what keeps a maximum begin anew; older kernels refuse."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self._descriptor, b"0", 0)

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


class LocalMeter:
    """contracts.environment.Meter of a process of this machine and all below it."""

    def __init__(self, handle: EnvironmentHandle, process: str) -> None:
        group = group_of(handle)
        found = from_details(handle, process)
        self._pid = found.pid if found else 0
        own = (f"/proc/{self._pid}",)
        self._cpu = Counter(
            group, {"cpuacct.usage": _number, "cpu.stat": _field(b"usage_usec")}, flags=os.O_RDONLY
        )
        self._cpu_unit = NANO if getattr(self._cpu, "name", "") == "cpuacct.usage" else MICRO
        peaks = {"memory.max_usage_in_bytes": _number, "memory.peak": _number}
        self._peak = Counter(group, peaks, flags=os.O_RDWR)
        if self._peak.read() is None:  # of an older kernel: it cannot be reset
            self._peak = Counter(group, peaks, flags=os.O_RDONLY)
        killed = {"memory.oom_control": _field(b"oom_kill"), "memory.events": _field(b"oom_kill")}
        self._killed = Counter(group, killed, flags=os.O_RDONLY)
        self._in_files = Counter(group, {"memory.stat": _field(b"shmem")}, flags=os.O_RDONLY)
        refused = {"pids.events": _field(b"max")}
        self._refused: Counter | Lasting = Counter(group, refused, flags=os.O_RDONLY)
        if TASKS in handle.details:  # what it refuses ends the group with all in it
            self._refused.close()
            self._refused = _lasting(group) or self._refused
        self._most = Counter(group, {"pids.peak": _number}, flags=os.O_RDONLY)
        self._written = Counter(own, {"io": _field(b"write_bytes:")}, flags=os.O_RDONLY)
        self._times = Counter(own, {"stat": _ticks}, flags=os.O_RDONLY)
        self._seen = self._written.read()
        self._disk = Disk(handle, self._seen)
        self._free = self._disk.free()

    def read(self) -> Reading:
        """See contracts.environment.Meter."""
        cpu = self._cpu.read()
        ticks = self._times.read() if cpu is None else None
        memory = self._peak.read()
        self._peak.reset()
        killed = self._killed.read()
        written = self._written.read()
        if written is None or written != self._seen:  # else nothing was written meanwhile
            self._seen, self._free = written, self._disk.free()
        is_guessed = written is None and self._disk.is_tight  # others' deletions hide what is new
        return Reading(
            cpu_s=_seconds(cpu, self._cpu_unit) if ticks is None else ticks / TICKS,
            memory_bytes=memory,
            processes=self._most.read(),
            written_bytes=written,
            ended_for_memory=killed,
            in_files_bytes=self._in_files.read() if killed else None,
            refused_processes=self._refused.read(),
            disk_bytes=self._disk.grown,
            has_room=self._free > PAGE_BYTES,
            is_due=is_guessed or self._disk.is_due(self._disk.estimate(written, self._free)),
        )

    async def look(self) -> Reading:
        """See contracts.environment.Meter."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> Reading:
        free = self._disk.free()
        self._disk.look(self._disk.estimate(self._written.read(), free))
        cpu = _seconds(self._cpu.read(), self._cpu_unit)
        killed, refused = self._killed.read(), self._refused.read()
        memory = processes = 0
        if cpu is None or killed is None or refused is None:
            tree = _tree(self._pid)
            cpu = tree.cpu_s if cpu is None else cpu
            memory = 0 if killed is not None else tree.memory_bytes
            processes = 0 if refused is not None else tree.processes
        return Reading(
            cpu_s=cpu,
            ended_for_memory=killed,
            refused_processes=refused,
            disk_bytes=self._disk.grown,
            has_room=free > PAGE_BYTES,
            memory_now=memory,
            processes_now=processes,
        )

    def close(self) -> None:
        """Release the files."""
        own = (self._cpu, self._peak, self._killed, self._refused, self._most, self._written)
        for counter in (*own, self._in_files, self._times):
            counter.close()


def _lasting(group: Iterable[str]) -> Lasting | None:
    for place in group:
        with contextlib.suppress(OSError):
            return Lasting(f"{place}/pids.events", _field(b"max"))
    return None


def _seconds(count: int | None, unit: int) -> float | None:
    return None if count is None else count / unit


class _Tree:
    """A process and all below it, at this moment."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.memory_bytes = 0
        self.processes = 0


def _tree(root: int) -> _Tree:
    if not root:
        return _Tree()  # it is gone; the parent of all would be another
    rows: dict[int, list[bytes]] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names alone
        if name.isdecimal() and (row := _row(name)):
            rows[int(name)] = row
            children.setdefault(int(row[1]), []).append(int(name))
    found, pending = _Tree(), [root]
    while pending:
        pid = pending.pop()
        pending += children.get(pid, ())
        row = rows.get(pid, [])
        if row:
            # the root has waited for those that have ended: their time is its own by now
            found.cpu_s += sum(map(int, row[11:15] if pid == root else row[11:13])) / TICKS
            found.memory_bytes += int(row[21]) * PAGE_BYTES
            found.processes += int(row[17])
    return found


def _row(name: str) -> list[bytes]:
    """Return the fields of /proc/PID/stat behind the program's name (proc(5)); [] when gone."""
    try:
        with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - /proc, many times
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _ticks(text: bytes) -> int:
    """Return the time of a process and of all that it has waited for."""
    return sum(map(int, text.rpartition(b")")[2].split()[11:15]))


__all__ = ["Counter", "LocalMeter"]
