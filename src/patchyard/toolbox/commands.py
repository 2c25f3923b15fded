"""A command line that runs in the workspace: streamed, bounded, killed with its whole tree."""

from __future__ import annotations

import os
import signal
import time

from . import processes
from .capture import Capture

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from typing import Any, Callable

    from .loop import Timer
    from .room import Room

DEFAULT_TIMEOUT_S = 30.0  # D+
STRAGGLER_S = 0.05  # how long a finished command's pipe may stay open before we go on
KILL_AGAIN_S = 0.005
KILL_LIMIT_S = 1.0
IDLE_SHARE = 0.05  # of a processor; below it a command that timed out was waiting
FIXED_ENV = {
    "TERM": "dumb",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
}
"""Programs that would ask somebody end instead: nobody is there."""
SHELLS = ("/bin/bash", "/bin/sh")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WAITING_HINT = (
    "; it used almost no processor time, so it was probably waiting for input or for a network."
    " Nobody can answer here: pass the answer as an option (-y, --no-input, -m), or run what"
    " never ends in the background"
)


class Launch:
    """What to start and where."""

    def __init__(self, argv: list[str], env: dict[str, str], directory: int) -> None:
        self.argv = argv
        self.env = env
        self.directory = directory  # open folder, the caller's


def find_shell() -> str:
    """Return bash where there is one, else sh; empty where there is neither."""
    return next((path for path in SHELLS if os.access(path, os.X_OK)), "")


def environment(room: Room, extra: dict[str, str], mark: str) -> dict[str, str]:
    """Return the environment of a command that carries `mark`."""
    own = {"PATH": DEFAULT_PATH, **room.settings.env, **FIXED_ENV, **extra}
    own[processes.MARKER] = mark
    return own


class Command:
    """One started command. Tells `done` its result once, `emit` its output as it comes."""

    def __init__(
        self,
        room: Room,
        launch: Launch,
        emit: Callable[[str, str], None],
        done: Callable[[dict[str, Any]], None],
    ) -> None:
        self._room = room
        self._done = done
        self._mark = launch.env[processes.MARKER]
        self._begun = time.monotonic()
        self._ended: float | None = None
        self._reason: str | None = None
        self._deadline: float | None = None
        self._limit: Timer | None = None
        self._was_idle = False
        self._used: resource.struct_rusage | None = None
        self.exit_code: int | None = None
        self.is_running = True
        room.running.add(self)
        pipes = {"stdout": os.pipe2(os.O_CLOEXEC), "stderr": os.pipe2(os.O_CLOEXEC)}
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        descriptors = {0: null, 1: pipes["stdout"][1], 2: pipes["stderr"][1]}
        try:
            self.pid = room.children.spawn(
                launch.argv, launch.env, launch.directory, descriptors, self._on_exit
            )
        except BaseException:
            room.running.discard(self)
            for reading, _ in pipes.values():
                os.close(reading)
            raise
        finally:
            for fd in descriptors.values():
                os.close(fd)
        self._streams = {
            name: Capture(reading, room.settings.output_bytes, _to(emit, name))
            for name, (reading, _) in pipes.items()
        }
        for stream in self._streams.values():
            self._listen(stream)

    def _listen(self, stream: Capture) -> None:
        fd = stream.fd
        if fd is not None:
            self._room.loop.watch(fd, lambda _events: self._on_output(stream))

    def _on_output(self, stream: Capture) -> None:
        if stream.fd is not None and stream.read():
            self._room.loop.unwatch(stream.fd)
            stream.close()
            self._finish_when_over()

    def _on_exit(self, code: int, used: resource.struct_rusage) -> None:
        self.exit_code = code
        self._used = used
        self._ended = time.monotonic()
        for stream in self._streams.values():
            self._on_output(stream)
        self._finish_when_over()
        if self.is_running and self._reason is None:
            self._room.loop.later(STRAGGLER_S, self._finish)

    def _finish_when_over(self) -> None:
        is_over = all(stream.fd is None for stream in self._streams.values())
        if is_over and self.exit_code is not None and self._reason is None:
            self._finish()

    def limit(self, timeout_s: float) -> None:
        """Kill it when it runs longer than `timeout_s`."""
        self._limit = self._room.loop.later(timeout_s, lambda: self._time_out(timeout_s))

    def _time_out(self, timeout_s: float) -> None:
        if self.is_running and self.exit_code is None:
            tree = processes.snapshot()
            own = processes.members(self.pid, self._mark, tree)
            ticks = sum(tree[pid].cpu for pid in own)
            used_s = ticks / os.sysconf("SC_CLK_TCK")
            self._was_idle = used_s < IDLE_SHARE * timeout_s
            self.kill("TIMEOUT")

    def kill(self, reason: str) -> None:
        """Kill the whole tree; the result then has `reason` as its error."""
        if not self.is_running or self._reason is not None:
            return
        self._reason = reason
        self._deadline = time.monotonic() + KILL_LIMIT_S
        self._kill_round()

    def _kill_round(self) -> None:
        if not self.is_running:
            return
        found = processes.kill_all(self._whole_tree)
        is_late = self._deadline is not None and time.monotonic() > self._deadline
        if is_late or (found == 0 and self.exit_code is not None):
            self._finish()
        else:
            self._room.loop.later(KILL_AGAIN_S, self._kill_round)

    def members(self, table: dict[int, processes.Process]) -> set[int]:
        """Return who belongs to it."""
        return processes.members(self.pid, self._mark, table)

    def _whole_tree(self, table: dict[int, processes.Process]) -> set[int]:
        found = processes.members(self.pid, self._mark, table)
        if self._room.children.are_all_known(self.pid):
            found |= processes.close_over(processes.unmarked_orphans(table), table)
        return found

    def _finish(self) -> None:
        if not self.is_running:
            return
        self.is_running = False
        self._room.running.discard(self)
        if self._limit is not None:
            self._limit.cancel()
        self._ended = self._ended or time.monotonic()
        for stream in self._streams.values():
            if stream.fd is not None:
                stream.read()
                stream.is_discarding = True  # what was left running would die of a closed pipe
        self._done(self.result())

    @property
    def elapsed_s(self) -> float:
        """How long it ran, or runs so far."""
        return round((self._ended or time.monotonic()) - self._begun, 4)

    def replay(self, emit: Callable[[str, str], None]) -> None:
        """Emit the output so far."""
        for name, stream in self._streams.items():
            if stream.total:
                emit(name, stream.take_text())

    def fields(self) -> dict[str, Any]:
        """Return what is known of it, running or not."""
        out, err = self._streams["stdout"], self._streams["stderr"]
        for stream in (out, err):
            stream.read()  # what was written before the question belongs to the answer
        found: dict[str, Any] = {
            "exit_code": self.exit_code,
            "is_running": self.is_running,
            "stdout": out.take_text(),
            "stderr": err.take_text(),
            "stdout_bytes": out.total,
            "stderr_bytes": err.total,
            "truncated": out.is_truncated or err.is_truncated,
            "elapsed_s": self.elapsed_s,
        }
        if self.exit_code is not None and self.exit_code < 0:
            found["signal"] = signal_name(-self.exit_code)
        return found

    def result(self) -> dict[str, Any]:
        """Return the settled result."""
        found = self.fields()
        left = any(stream.fd is not None for stream in self._streams.values())
        found["left_running"] = left and self._reason is None
        if self._used is not None:
            found["usage"] = used_by(self._used)
        return {**found, **self._verdict()}

    def _verdict(self) -> dict[str, Any]:
        if self._reason == "TIMEOUT":
            hint = WAITING_HINT if self._was_idle else ""
            message = "timed out after %d ms and was killed" % (self.elapsed_s * 1000)
            return {"success": False, "error": "TIMEOUT", "message": message + hint}
        if self._reason is not None:
            message = "killed after %.3g s" % self.elapsed_s
            return {"success": False, "error": self._reason, "message": message}
        return verdict(self.exit_code, self.elapsed_s)


def used_by(used: resource.struct_rusage) -> dict[str, float]:
    """Return what a command used with all that it has waited for (getrusage(2))."""
    return {
        "cpu_s": round(used.ru_utime + used.ru_stime, 4),
        "memory_bytes": used.ru_maxrss * 1024,  # of the largest process
        "written_bytes": used.ru_oublock * 512,
    }


def verdict(code: int | None, elapsed_s: float) -> dict[str, Any]:
    """Return success, message and error for an exit code."""
    if code == 0:
        return {"success": True, "message": "exit code 0 after %.3g s" % elapsed_s}
    if code is not None and code < 0:
        message = "killed by %s after %.3g s" % (signal_name(-code), elapsed_s)
    else:
        message = "exit code %s after %.3g s" % (code, elapsed_s)
    return {"success": False, "error": "COMMAND_FAILED", "message": message}


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def _to(emit: Callable[[str, str], None], name: str) -> Callable[[str], None]:
    return lambda text: emit(name, text)


__all__ = [
    "DEFAULT_PATH",
    "DEFAULT_TIMEOUT_S",
    "FIXED_ENV",
    "IDLE_SHARE",
    "KILL_AGAIN_S",
    "KILL_LIMIT_S",
    "STRAGGLER_S",
    "WAITING_HINT",
    "Command",
    "Launch",
    "environment",
    "find_shell",
    "signal_name",
    "used_by",
    "verdict",
]
