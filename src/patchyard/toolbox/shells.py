"""Shells that stay: folder and variables live on from one command to the next.

Commands go in and exit codes come out through two pipes of their own, so that no output can be
mistaken for them.
"""

from __future__ import annotations

import fcntl
import os
import time

from . import arguments, processes
from .answers import Refusal, internal
from .capture import Capture
from .commands import KILL_AGAIN_S, KILL_LIMIT_S, environment, find_shell, verdict
from .levels import level_of
from .loop import WRITE
from .running import open_directory, variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from typing import Any, Callable

    from .calls import Call
    from .loop import Timer
    from .room import Room

COMMANDS_FD, CODES_FD = 8, 9
PARKED_FD = 64
LONGEST_LINE = 60_000  # a pipe holds 65,536 bytes
LONGEST_NAME = 64
MAX_SHELLS = 16
SCRIPT = """
while IFS= read -r -d '' __patchyard_line <&{commands}; do
eval "$__patchyard_line" {commands}<&- {codes}>&-
printf '{token} %d\\n' "$?" >&{codes}
done
"""


class Shell:
    """One persistent bash, which runs one command at a time."""

    def __init__(self, room: Room, name: str, args: dict[str, Any], mark: str) -> None:
        self._room = room
        self._name = name
        self._mark = mark
        self._token = os.urandom(12).hex()
        self._said = b""
        self._call: Call | None = None
        self._command = ""
        self._begun = time.monotonic()
        self._timer: Timer | None = None
        self._deadline = 0.0
        self._reason: str | None = None
        self._exit_code: int | None = None
        self._streams: dict[str, Capture] = {}
        self._open: list[int] = []
        self._start(args)

    def _start(self, args: dict[str, Any]) -> None:
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(4)]
        (commands, self._commands), (self._codes, codes), (self._out, out), (self._err, err) = pipes
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        # Parked high, so that numbering them anew never closes one that is still to come.
        ends = {0: null, 1: out, 2: err, COMMANDS_FD: commands, CODES_FD: codes}
        parked = {n: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, PARKED_FD) for n, fd in ends.items()}
        directory = -1
        try:
            directory = open_directory(self._room, args)
            script = SCRIPT.format(commands=COMMANDS_FD, codes=CODES_FD, token=self._token)
            with self._room.loop.owned(self._fail):
                self.pid = self._room.children.spawn(
                    [find_shell(), "--norc", "--noprofile", "-c", script],
                    environment(self._room, variables(args), self._mark),
                    directory,
                    parked,
                    self._on_exit,
                )
        except BaseException:
            for fd in (self._commands, self._codes, self._out, self._err):
                os.close(fd)
            raise
        finally:
            for fd in (*ends.values(), *parked.values(), directory):
                if fd >= 0:
                    os.close(fd)
        os.set_blocking(self._codes, False)
        os.set_blocking(self._commands, False)
        with self._room.loop.owned(self._fail):
            self._room.loop.watch(self._codes, self._on_code)
            self._renew_streams()

    def _fail(self, error: Exception) -> None:
        """Fail the present call after an exception, and end the shell: its state is not known."""
        if self._call is not None:
            self._call.fail(internal(error))
        self.kill("INTERNAL_ERROR")

    def _renew_streams(self) -> None:
        for name, fd in (("stdout", self._out), ("stderr", self._err)):
            self._streams[name] = Capture(fd, self._room.settings.output_bytes, self._emit(name))
            self._room.loop.watch(fd, self._on_output(self._streams[name]))

    def _emit(self, name: str) -> Callable[[str], None]:
        def emit(text: str) -> None:
            if self._call is not None:
                self._call.emit(name, text)

        return emit

    def _on_output(self, stream: Capture) -> Callable[[int], None]:
        def handle(_events: int) -> None:
            if stream.fd is not None and stream.read():
                self._room.loop.unwatch(stream.fd)

        return handle

    @property
    def is_busy(self) -> bool:
        """Whether a command runs in it."""
        return self._call is not None

    def run(self, call: Call, command: str, timeout_s: float) -> None:
        """Run `command`; the call is settled with its exit code."""
        self._call = call
        self._command = command
        self._begun = time.monotonic()
        self._renew_streams()
        call.on_cancel = lambda: self.kill("CANCELLED")
        self._timer = self._room.loop.later(timeout_s, lambda: self.kill("TIMEOUT"))
        self._write(command.encode("utf-8", "surrogateescape") + b"\0")

    def _write(self, rest: bytes) -> None:
        """Pass `rest` to the shell, as much at a time as its pipe takes."""
        try:
            rest = rest[os.write(self._commands, rest) :]
        except BlockingIOError:
            pass
        except OSError:
            self.kill("COMMAND_FAILED")
            return
        if rest:
            self._room.loop.watch(self._commands, lambda _events: self._write(rest), WRITE)
        else:
            self._room.loop.unwatch(self._commands)

    def _on_code(self, _events: int) -> None:
        try:
            piece = os.read(self._codes, 4096)
        except BlockingIOError:
            return
        if not piece:
            self._room.loop.unwatch(self._codes)
            return
        self._said += piece
        line, end, rest = self._said.partition(b"\n")
        if end:
            self._said = rest
            token, _, code = line.partition(b" ")
            if token == self._token.encode("ascii") and code.isdigit() and self._reason is None:
                self._settle(int(code))

    def _settle(self, code: int | None, note: str = "") -> None:
        call = self._call
        if self._timer is not None:
            self._timer.cancel()
        if call is None or call.is_over:
            self._call = None
            return
        for stream in self._streams.values():
            stream.read()
        out, err = self._streams["stdout"], self._streams["stderr"]
        elapsed_s = round(time.monotonic() - self._begun, 4)
        found = verdict(code, elapsed_s)
        if self._reason is not None:
            found = {"success": False, "error": self._reason, "message": ""}
        found["message"] = (found["message"] + note).lstrip("; ")
        result = {
            **found,
            "exit_code": code,
            "stdout": out.take_text(),
            "stderr": err.take_text(),
            "stdout_bytes": out.total,
            "stderr_bytes": err.total,
            "truncated": out.is_truncated or err.is_truncated,
            "elapsed_s": elapsed_s,
            "is_background": False,
            "command": self._command,
            "security_level": level_of(self._command),
            "session": self._name,
        }
        self._call = None
        call.settle(result)

    def kill(self, reason: str) -> None:
        """Kill the shell with everything it started; it is lost with its variables."""
        if self._reason is None:
            self._reason = reason
            self._deadline = time.monotonic() + KILL_LIMIT_S
            self._kill_round()

    def members(self, table: dict[int, processes.Process]) -> set[int]:
        """Return who belongs to it."""
        return processes.members(self.pid, self._mark, table)

    def _kill_round(self) -> None:
        found = processes.kill_all(self.members)
        if time.monotonic() > self._deadline or (not found and self._exit_code is not None):
            self._close()
        else:
            self._room.loop.later(KILL_AGAIN_S, self._kill_round)

    def _on_exit(self, code: int, _used: resource.struct_rusage) -> None:
        self._exit_code = code
        if self._reason is None:
            self._close()

    def _close(self) -> None:
        if self._room.shells.get(self._name) is not self:
            return
        del self._room.shells[self._name]
        word = {"TIMEOUT": "timed out", "CANCELLED": "was cancelled"}.get(self._reason or "", "")
        note = "; %s: " % word if word else "; "
        self._settle(
            self._exit_code, note + "this shell has ended; the next command gets a new one"
        )
        for fd in (self._commands, self._codes, self._out, self._err):
            self._room.loop.unwatch(fd)
            os.close(fd)


def run_in_session(room: Room, call: Call, args: dict[str, Any], timeout_s: float) -> None:
    """Run a command in the shell that `session` names, started now when there is none."""
    name, command = arguments.text(args, "session"), arguments.text(args, "command")
    if not name or len(name) > LONGEST_NAME:
        raise Refusal("VALIDATION_ERROR", "`session` must be a short name")
    if len(arguments.data(args, "command")) > LONGEST_LINE:
        message = "a command of a session holds %d bytes at most; write it to a file and run that"
        raise Refusal("VALIDATION_ERROR", message % LONGEST_LINE)
    shell = room.shells.get(name)
    if shell is None:
        if not find_shell().endswith("bash"):
            raise Refusal("NO_BASH", "sessions need bash, which this environment lacks")
        if len(room.shells) >= MAX_SHELLS:
            raise Refusal("TOO_MANY_SESSIONS", "%d sessions are open already" % MAX_SHELLS)
        shell = room.shells[name] = Shell(room, name, args, call.mark)
    elif shell.is_busy:
        raise Refusal("SESSION_BUSY", "a command runs in session %s already" % name)
    shell.run(call, command, timeout_s)


__all__ = [
    "CODES_FD",
    "COMMANDS_FD",
    "LONGEST_LINE",
    "LONGEST_NAME",
    "MAX_SHELLS",
    "PARKED_FD",
    "SCRIPT",
    "Shell",
    "run_in_session",
]
