"""A process that stays and talks in lines: one JSON object a line, in and out (MCP's stdio).

Knows no method. What comes out is read within bounds; what is no object is counted and dropped.
"""

from __future__ import annotations

import os
import re
import time

from . import processes
from .capture import Capture
from .commands import KILL_AGAIN_S, KILL_LIMIT_S, STRAGGLER_S, signal_name
from .loop import WRITE
from .wire import TooDeep, dumped, loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from typing import Any, Callable

    from .commands import Launch
    from .room import Room

PIECE_BYTES = 256 * 1024
LONGEST_LINE = 8 * 1024 * 1024  # escaped, it still goes into a frame
PENDING_BYTES = 8 * 1024 * 1024  # unread by the process above it: it is given up
ERRORS_BYTES = 8 * 1024  # kept of its standard error
WORDS_CHARS = 1000  # of these, told to whoever waits
NAMED = re.compile(
    r"(?:Uncaught )?(?:[\w.$]*(?:Error|Exception)|[Ee]rror|ERROR|[Ff]atal|FATAL|panic)"
    r"(?: ?[\[(][^\])]*[\])])?: "
)  # a line that names an error, as Node.js, Python, Go and most programs write it
LONGEST_NUMBER = 40  # digits; longer ones take their time, and are no number that anybody means


class Talker:
    """One such process. Tells `hear` each object, `over` once why it can say nothing more."""

    def __init__(
        self,
        room: Room,
        launch: Launch,
        hear: Callable[[dict[str, Any]], None],
        over: Callable[[str], None],
    ) -> None:
        self._room = room
        self._hear = hear
        self._over = over
        self._mark = launch.env[processes.MARKER]
        self._heard = bytearray()
        self._pending = bytearray()
        self._deadline = 0.0
        self._exit_code: int | None = None
        self._is_killing = False
        self.is_open = True  # it can be talked to
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        (asked, self._into), (self._out, said), (told, errors) = pipes
        try:
            with room.loop.owned(self._fail):
                self.pid = room.children.spawn(
                    launch.argv,
                    launch.env,
                    launch.directory,
                    {0: asked, 1: said, 2: errors},
                    self._on_exit,
                )
        except BaseException:
            for fd in (self._into, self._out, told):
                os.close(fd)
            raise
        finally:
            for fd in (asked, said, errors):
                os.close(fd)
        os.set_blocking(self._into, False)
        os.set_blocking(self._out, False)
        self._errors = Capture(told, ERRORS_BYTES, lambda _text: None)
        with room.loop.owned(self._fail):
            room.loop.watch(self._out, lambda _events: self._listen())
            room.loop.watch(told, lambda _events: self._on_errors())

    def say(self, message: dict[str, Any]) -> None:
        """Send an object, as fast as the process reads."""
        if not self.is_open:
            return
        was_empty = not self._pending
        self._pending += dumped(message).encode("ascii") + b"\n"
        if len(self._pending) > PENDING_BYTES:
            self._close("it does not read what it is sent")
        elif was_empty:
            self._flush()

    def _fail(self, error: Exception) -> None:
        """End it after an exception in what was made of its words."""
        self.end("this toolbox failed on what it said: %s: %s" % (type(error).__name__, error))

    def _flush(self) -> None:
        try:
            while self._pending:
                del self._pending[: os.write(self._into, self._pending)]
        except BlockingIOError:
            with self._room.loop.owned(self._fail):
                self._room.loop.watch(self._into, lambda _events: self._flush(), WRITE)
            return
        except OSError:
            self._pending.clear()  # it has closed its input; its output says when it is over
        self._room.loop.unwatch(self._into)

    def _listen(self) -> None:
        try:
            piece = os.read(self._out, PIECE_BYTES)
        except BlockingIOError:
            return
        if not piece:
            self._room.loop.unwatch(self._out)  # how it ended is known in a moment
            self._room.loop.later(STRAGGLER_S, self._come_to_an_end)
            return
        self._heard += piece
        if b"\n" in piece:
            *lines, self._heard = self._heard.split(b"\n")  # at once: a piece may be all line ends
            for line in lines:
                if line and self.is_open:
                    self._take(bytes(line))
        if self.is_open and len(self._heard) > LONGEST_LINE:
            self._close("it said more than %d bytes in one line" % LONGEST_LINE)

    def _take(self, line: bytes) -> None:
        try:
            found = parsed(line)
        except TooDeep as error:
            self._close("what it said is %s" % error)
            return
        if found is not None:
            self._hear(found)

    def _on_errors(self) -> None:
        if self._errors.fd is not None and self._errors.read():
            self._room.loop.unwatch(self._errors.fd)
            self._errors.close()

    def _on_exit(self, code: int, _used: resource.struct_rusage) -> None:
        self._exit_code = code
        if self.is_open:
            self._listen()
        self._come_to_an_end()

    def _come_to_an_end(self) -> None:
        if self.is_open:
            self._close(self._ending())

    def _ending(self) -> str:
        code = self._exit_code
        if code is None:
            return "it closed its output"
        if code < 0:
            return "it was killed by %s" % signal_name(-code)
        return "it ended with exit code %d" % code

    def last_words(self) -> str:
        """Return what it wrote to its standard error, the line that tells most first."""
        self._on_errors()
        return telling(self._errors.take_text())

    def _close(self, why: str) -> None:
        self.is_open = False
        self._room.loop.unwatch(self._out)
        self._room.loop.unwatch(self._into)
        os.close(self._out)
        os.close(self._into)
        self.kill()
        self._over(why)

    def end(self, why: str) -> None:
        """Kill it with all that it has started, and say `why` to whoever waits."""
        if self.is_open:
            self._close(why)

    def kill(self) -> None:
        """Kill the whole tree, again and again until nothing of it is left."""
        if not self._is_killing:
            self._is_killing = True
            self._deadline = time.monotonic() + KILL_LIMIT_S
            self._kill_round()

    def _kill_round(self) -> None:
        found = processes.kill_all(self.members)
        if (found or self._exit_code is None) and time.monotonic() < self._deadline:
            self._room.loop.later(KILL_AGAIN_S, self._kill_round)

    def members(self, table: dict[int, processes.Process]) -> set[int]:
        """Return who belongs to it."""
        return processes.members(self.pid, self._mark, table)


def telling(text: str) -> str:
    """Return the last line that names an error, or the last one, and the end of the others."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    named = [number for number, line in enumerate(lines) if NAMED.match(line)]
    first = lines.pop(named[-1] if named else -1).strip()[:WORDS_CHARS]
    room = WORDS_CHARS - len(first)
    rest = "\n".join(lines)[-room:] if room else ""
    return "%s\n%s" % (first, rest) if rest else first


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return the object in a line; None where it holds none. Raises TooDeep."""
    try:
        found = loaded(line.decode("utf-8", "replace"), parse_int=_whole)
    except TooDeep:
        raise
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _whole(digits: str) -> float:
    return int(digits) if len(digits) <= LONGEST_NUMBER else float("nan")


__all__ = [
    "ERRORS_BYTES",
    "LONGEST_LINE",
    "PENDING_BYTES",
    "WORDS_CHARS",
    "Talker",
    "parsed",
    "telling",
]
