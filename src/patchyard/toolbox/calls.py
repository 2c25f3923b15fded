"""The calls of this toolbox: each runs once, is watched by whoever asks, and kept until forgotten.

Kept in memory only, where commands cannot reach.
"""

from __future__ import annotations

import contextlib
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Protocol

    from .commands import Command

    class Watcher(Protocol):
        """Somebody who is told what happens to calls."""

        def on_output(self, call_id: str, stream: str, text: str) -> None:
            """Take a piece of output."""

        def on_result(self, frame: bytes) -> None:
            """Take the result, encoded."""


KEPT_BYTES = 64 * 1024 * 1024
KEPT_IDS = 100_000
CLOCK_REALTIME_COARSE = 5  # linux/time.h; file times come from it, or are finer and later
GROUPS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Where a container sees its own group, with version 2 and with version 1; cgroups(7)."""


IN_MEMORY = ("/dev/shm", "/home", "/home/agent", "/home/patchyard-agent", "/tmp", "/var/tmp")  # noqa: S108 - of a machine or a container of ours


def coarse_time() -> float:
    """Return the earliest time with which the kernel stamps files now: that of its last tick."""
    return time.clock_gettime(CLOCK_REALTIME_COARSE)


def killed_for_memory() -> int:
    """Return how many processes this kernel has killed since it runs, as memory was short."""
    with open("/proc/vmstat", "rb") as file:
        rows = dict(line.split() for line in file)
    return int(rows.get(b"oom_kill", 0))


def killed_in_group() -> int:
    """Return how many were killed in the control group that is shown as the topmost; 0: none is."""
    for path in GROUPS:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            rows = dict(line.split(None, 1) for line in file)
            return int(rows.get(b"oom_kill", 0))
    return 0


def in_files() -> int:
    """Return how many bytes of memory the files in folders of this place take that lie in it."""
    taken = {}
    own = os.stat("/").st_dev
    for path in IN_MEMORY:
        with contextlib.suppress(OSError):
            device, facts = os.stat(path).st_dev, os.statvfs(path)
            if device != own:
                taken[device] = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    return sum(taken.values())


class Call:
    """One call: running until `frame` is set."""

    def __init__(
        self,
        call_id: str,
        mark: str,
        encode: Callable[[str, dict[str, Any]], bytes],
        count: Callable[[], int] | None = None,
    ) -> None:
        """With `count` the result says how many it has become more, where it has."""
        self._count = count
        self._first = count() if count else 0
        self.call_id = call_id
        self.mark = mark
        self.is_over = False  # settled; `frame` may come a little later
        self.frame: bytes | None = None
        self._watchers: list[Watcher] = []
        self._listeners: list[Watcher] = []  # those of them that want output as it comes
        self.running: Command | None = None
        self.on_cancel: Callable[[], None] | None = None
        self._encode = encode
        self._started = coarse_time()
        self.on_settled: Callable[[Call], None] | None = None
        self.complete: Callable[[dict[str, Any], Callable[[], None]], None] | None = None
        """Adds to a result what is known only once it is over, then calls what it is given."""

    def emit(self, stream: str, text: str) -> None:
        """Pass a piece of output on."""
        for watcher in list(self._listeners):
            watcher.on_output(self.call_id, stream, text)

    def settle(self, result: dict[str, Any]) -> None:
        """Set the result, once."""
        if self.is_over:
            return
        self.is_over = True
        result["started"] = self._started
        result["ended"] = time.time()
        killed = self._count() - self._first if self._count else 0
        if killed:
            result["killed_for_memory"] = killed
            result["in_files_bytes"] = in_files()
        result.setdefault("paths", [])
        if self.complete is None:
            self._tell(result)
        else:
            self.complete(result, lambda: self._tell(result))

    def fail(self, result: dict[str, Any]) -> None:
        """Tell a failure of this toolbox in place of a result that never comes."""
        self.is_over = True
        self._tell({"paths": [], "started": self._started, "ended": time.time(), **result})
        if self.running is not None:
            self.running.kill(result["error"])

    def _tell(self, result: dict[str, Any]) -> None:
        if self.frame is not None:  # it failed while this was made
            return
        self.frame = self._encode(self.call_id, result)
        watchers, self._watchers = self._watchers, []
        self._listeners.clear()
        for watcher in watchers:
            watcher.on_result(self.frame)
        if self.running is not None and not self.running.is_running:
            self.running = None  # its output is in the frame; a job goes on
        if self.on_settled is not None:
            self.on_settled(self)

    def watch(self, watcher: Watcher, *, is_listening: bool) -> None:
        """Tell `watcher` the result; to one that is listening all output too, also what was."""
        if self.frame is not None:
            watcher.on_result(self.frame)
            return
        self._watchers.append(watcher)
        if is_listening:
            if self.running is not None:
                replay = self.running.replay
                replay(lambda stream, text: watcher.on_output(self.call_id, stream, text))
            self._listeners.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Tell `watcher` nothing more."""
        for told in (self._watchers, self._listeners):
            if watcher in told:
                told.remove(watcher)

    def cancel(self) -> None:
        """Kill what runs for it, a background job of it too."""
        if self.running is not None:
            self.running.kill("CANCELLED")
        elif self.on_cancel is not None and not self.is_over:
            self.on_cancel()


class Register:
    """All known calls, and the names of those whose result is not held any more."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self._gone: dict[str, bool] = {}  # whether the engine has said that it holds the result
        self._bytes = 0

    def add(self, call: Call) -> None:
        """Keep `call`."""
        self.calls[call.call_id] = call
        call.on_settled = self._on_settled

    def _on_settled(self, call: Call) -> None:
        self._bytes += len(call.frame or b"")
        for old in list(self.calls.values()):
            if self._bytes <= KEPT_BYTES:
                break
            if old is not call and old.frame is not None:
                self._drop(old, is_journalled=False)

    def forget(self, call_id: str) -> None:
        """Drop a settled call's result; its name stays known."""
        call = self.calls.get(call_id)
        if call is not None and call.frame is not None:
            self._drop(call, is_journalled=True)

    def _drop(self, call: Call, *, is_journalled: bool) -> None:
        del self.calls[call.call_id]
        self._bytes -= len(call.frame or b"")
        self._gone[call.call_id] = is_journalled
        while len(self._gone) > KEPT_IDS:
            del self._gone[next(iter(self._gone))]

    def is_gone(self, call_id: str) -> bool:
        """Whether the call was settled and its result is not held any more."""
        return call_id in self._gone


__all__ = [
    "CLOCK_REALTIME_COARSE",
    "KEPT_BYTES",
    "KEPT_IDS",
    "Call",
    "Register",
    "coarse_time",
    "in_files",
    "killed_for_memory",
    "killed_in_group",
]
