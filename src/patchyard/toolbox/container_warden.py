"""Stands beside one container that no socket can be passed into: holds its standard streams.

Runs on the host and outlives the engine. Beside what every attendant is asked for there is `own`:
the process that the container goes with.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal

from .attending import Attendant
from .loop import Loop
from .sealing import KEY_BYTES, Seal
from .trunks import Attached
from .wire import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .connection import Connection


class ContainerWarden(Attendant):
    """One of them. `given` holds the numbers of its descriptors."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(Loop(), given)
        self._owned: tuple[int, int] | None = None  # number and start time
        stream = Attached(given["stream_fd"], self.keep)
        key = os.urandom(KEY_BYTES)
        if stream.write(key) != KEY_BYTES:
            raise OSError("the stream of a container takes no key")
        self.lead(stream, Seal(key, is_first=True))

    def on_request(self, connection: Connection, message: dict[str, Any]) -> None:
        """See Attendant."""
        if message.get("do") == "own":
            self._owned = (message["pid"], message["started"])
            connection.send(encode({"say": "done"}))
        else:
            super().on_request(connection, message)

    def look(self) -> None:
        """Take nothing: what it says comes over the stream."""

    def on_broken(self, why: str) -> None:
        """End a container that nobody can speak to, whoever has closed the stream."""
        self.keep(b"\nthe stream ended: " + why.encode("utf-8", "replace"))
        self.kill()

    def kill(self) -> None:
        """End the container; one whose process is not known ends with its standard input."""
        if self._owned is not None:
            pid, started = self._owned
            if _started(pid) == started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.is_over = True


def _started(pid: int) -> int:
    """Return the start time of a process; 0 of one that is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError):
        return 0


def main(text: str) -> int:
    """Stand beside the container that `text`, a JSON object, describes; return the exit code."""
    given: dict[str, Any] = json.loads(text)
    for number in given["ours"]:
        os.set_inheritable(number, False)
    os.chdir(given["folder"])  # a socket's address holds 108 bytes
    ContainerWarden(given).run()
    return 0


__all__ = ["ContainerWarden", "main"]
