"""Stands beside one virtual machine: starts it, leads connections to its toolbox, ends with it.

Runs on the host, outlives the engine, and is the only one who speaks to the machine. Beside what
every attendant is asked for there are `tell` (what the guest is told, and answers), `pause` (for as
long as that connection lives), `status`, `save`.
"""

from __future__ import annotations

import json
import os
import signal
import socket

from .attending import Attendant
from .loop import Loop
from .machines import Monitor
from .trunks import Trunk
from .wire import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .connection import Connection

LEAVING_S = 0.5


class Warden(Attendant):
    """One of them. `given` holds the numbers of its descriptors and the machine's command."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(Loop(), given)
        self._save_fd: int = given["save_fd"]
        self._filler = socket.socket(fileno=given["fill_fd"])
        self._said_fd: int = given["said_fd"]
        self.ready = {"say": "ready"} if given["is_ready"] else None
        self._told: list[Connection] = []  # for the guest's answers, in order
        self._pausing: set[Connection] = set()
        self._children = self._watch_children()
        self._machine = os.posix_spawn(given["argv"][0], given["argv"], dict(os.environ))
        for number in given["theirs"]:
            os.close(number)
        self._monitor = Monitor(self.loop, given["qmp_fd"])
        self.lead(Trunk(given["trunk_fd"]))

    def run(self) -> None:
        """Serve until the machine has ended."""
        self.accept(self._filler, self._fill)
        os.set_blocking(self._said_fd, False)
        self.loop.watch(self._said_fd, self._on_said)
        super().run()

    def _watch_children(self) -> int:
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        self.loop.watch(reading, self._on_child)
        return reading

    def _on_child(self, _events: int) -> None:
        os.read(self._children, 4096)
        if os.waitpid(self._machine, os.WNOHANG)[0]:
            self.is_over = True

    def _on_said(self, _events: int) -> None:
        self.look()

    def look(self) -> None:
        """Take what machine and kernel have said."""
        try:
            self.keep(os.read(self._said_fd, 64 * 1024))
        except BlockingIOError:
            return

    def on_broken(self, why: str) -> None:
        """End a machine that nobody can speak to."""
        self.keep(b"\nthe channel ended: " + why.encode("utf-8", "replace"))
        self.loop.later(LEAVING_S, self.kill)  # a machine that ends by itself is reaped well

    def kill(self) -> None:
        """End the machine; it goes with the program that holds its namespaces."""
        os.kill(self._machine, signal.SIGKILL)

    def _fill(self, peer: socket.socket) -> None:
        self.strands.open("fill", peer)

    def on_closed(self, connection: Connection) -> None:
        """See Attendant; a machine that was paused goes on."""
        if connection in self._pausing:
            self._pausing.discard(connection)
            self._resume()
        super().on_closed(connection)

    def on_request(self, connection: Connection, message: dict[str, Any]) -> None:
        """See Attendant; what is asked of the machine itself goes to its monitor."""
        do = message.get("do")
        if do == "tell":
            self._told.append(connection)
            self.strands.say(message["what"])
        elif do == "pause":
            self._pausing.add(connection)
            self._monitor.ask("stop", {}, _passing_on(connection))
        elif do == "status":
            self._monitor.ask("query-status", {}, _passing_on(connection))
        elif do == "save":
            self._save(connection)
        else:
            super().on_request(connection, message)

    def _resume(self) -> None:
        if not self._pausing:
            self._monitor.ask("cont", {}, _nothing)

    def hear(self, message: dict[str, Any]) -> None:
        """See Attendant; what the guest was told it answers."""
        if message.get("say") in ("done", "refused") and self._told:
            self._told.pop(0).send(encode(message))
        else:
            super().hear(message)

    def _save(self, connection: Connection) -> None:
        """Write the machine's state to the descriptor for it; afterwards it stands.

        It is not stopped before: a state saved of a stopped machine is a stopped one.
        """
        passing = _passing_on(connection)

        def look(answer: dict[str, Any]) -> None:
            state = answer.get("return", {}).get("status")
            if state in ("completed", "failed"):
                connection.send(encode({"say": "saved", "is_whole": state == "completed"}))
            else:
                self.loop.later(0.01, lambda: self._monitor.ask("query-migrate", {}, look))

        def begin(answer: dict[str, Any]) -> None:
            if "error" in answer:
                passing(answer)
            else:
                self._monitor.ask("migrate", {"uri": "fd:state"}, begun)

        def begun(answer: dict[str, Any]) -> None:
            if "error" in answer:
                passing(answer)
            else:
                self._monitor.ask("query-migrate", {}, look)

        speed = {"max-bandwidth": 1 << 40}
        self._monitor.ask("migrate-set-parameters", speed, _nothing)
        self._monitor.ask("getfd", {"fdname": "state"}, begin, descriptor=self._save_fd)


def _passing_on(connection: Connection) -> Callable[[dict[str, Any]], None]:
    def pass_on(answer: dict[str, Any]) -> None:
        connection.send(encode({"say": "machine", **answer}))

    return pass_on


def _nothing(_answer: dict[str, Any]) -> None:
    """Take no notice."""


def _ignore(_number: int, _frame: object) -> None:
    """Let the signal wake the loop, nothing else."""


def main(text: str) -> int:
    """Stand beside the machine that `text`, a JSON object, describes; return the exit code."""
    given: dict[str, Any] = json.loads(text)
    for number in given["ours"]:
        os.set_inheritable(number, False)
    os.chdir(given["folder"])  # a socket's address holds 108 bytes
    Warden(given).run()
    return 0


__all__ = ["LEAVING_S", "Warden", "main"]
