"""Stands beside one virtual machine: starts it, leads connections to its toolbox, ends with it.

Runs on the host, outlives the engine, and is the only one who speaks to the machine. The engine
asks it over a control socket, in frames of `wire`: `ready`, `tell` (what the guest is told, and
answers), `listen` (path of a socket for what comes to a port inside), `pause` (for as long as that
connection lives), `status`, `save`.
"""

from __future__ import annotations

import json
import os
import signal
import socket

from .connection import Connection
from .loop import Loop
from .machines import Monitor
from .strands import Strands
from .wire import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .loop import Timer

LEAVING_S = 0.5
SAID_BYTES = 8 * 1024  # kept of what machine and kernel say


class Warden:
    """One of them. `given` holds the numbers of its descriptors and the machine's command."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._loop = Loop()
        self._grace_s: float = given["grace_s"]
        self._grace: Timer | None = None
        self._save_fd: int = given["save_fd"]
        self._listener = socket.socket(fileno=given["listen_fd"])
        self._control = socket.socket(fileno=given["control_fd"])
        self._filler = socket.socket(fileno=given["fill_fd"])
        self._said_fd: int = given["said_fd"]
        self._said = bytearray()
        self._is_ready: bool = given["is_ready"]
        self._connections: set[Connection] = set()
        self._waiting: list[Connection] = []  # for the guest to be up
        self._told: list[Connection] = []  # for its answers, in order
        self._paths: dict[int, str] = {}  # of the engine's listeners, by port inside
        self._asked: list[tuple[Connection, str]] = []  # for a port, in order
        self._ports: dict[Connection, int] = {}
        self._pausing: set[Connection] = set()
        self._is_over = False
        self._children = self._watch_children()
        self._machine = os.posix_spawn(given["argv"][0], given["argv"], dict(os.environ))
        for number in given["theirs"]:
            os.close(number)
        self._monitor = Monitor(self._loop, given["qmp_fd"])
        self._strands = Strands(
            self._loop,
            given["trunk_fd"],
            is_first=True,
            answer=self._answer,
            hear=self._hear,
            broken=self._on_broken,
        )
        self._strands.changed = self._count

    def run(self) -> None:
        """Serve until the machine has ended."""
        accepting = (
            (self._listener, self._lead),
            (self._filler, self._fill),
            (self._control, self._greet),
        )
        for listener, accepted in accepting:
            listener.setblocking(False)
            self._loop.watch(listener.fileno(), _accepting(listener, accepted))
        os.set_blocking(self._said_fd, False)
        self._loop.watch(self._said_fd, self._on_said)
        self._count()
        while not self._is_over:
            self._loop.turn()
        self._on_said(0)
        last = encode({"say": "ended", "said": self._tail()})
        for connection in list(self._connections):
            connection.send(last)

    def _watch_children(self) -> int:
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        self._loop.watch(reading, self._on_child)
        return reading

    def _on_child(self, _events: int) -> None:
        os.read(self._children, 4096)
        if os.waitpid(self._machine, os.WNOHANG)[0]:
            self._is_over = True

    def _on_said(self, _events: int) -> None:
        try:
            data = os.read(self._said_fd, 64 * 1024)
        except BlockingIOError:
            return
        self._said = (self._said + data)[-SAID_BYTES:]

    def _tail(self) -> str:
        return self._said.decode("utf-8", "replace")

    def _on_broken(self, why: str) -> None:
        self._said += b"\nthe channel ended: " + why.encode("utf-8", "replace")
        self._loop.later(LEAVING_S, self._kill)  # a machine that ends by itself is reaped well

    def _kill(self) -> None:
        """End the machine; it goes with the program that holds its namespaces."""
        os.kill(self._machine, signal.SIGKILL)

    def _count(self) -> None:
        """Begin or end the time that it may be without an engine."""
        if self._grace is not None:
            self._grace.cancel()
        self._grace = None
        if not self._connections and not self._strands.count:
            self._grace = self._loop.later(self._grace_s, self._kill)

    def _lead(self, peer: socket.socket) -> None:
        self._strands.open("toolbox", peer)

    def _fill(self, peer: socket.socket) -> None:
        self._strands.open("fill", peer)

    def _answer(self, name: str) -> socket.socket | None:
        """Connect what comes to a port inside to the engine's own listener."""
        path = self._paths.get(int(name) if name.isdigit() else 0)
        if path is None:
            return None
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.setblocking(False)
            peer.connect(path)
        except OSError:
            peer.close()
            return None
        return peer

    def _greet(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        self._connections.add(Connection(peer, self._loop, self._on_request, self._on_closed))
        self._count()

    def _on_closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        port = self._ports.pop(connection, None)
        if port is not None:
            del self._paths[port]
            self._strands.say({"do": "unlisten", "port": port})
        if connection in self._pausing:
            self._pausing.discard(connection)
            self._resume()
        self._count()

    def _on_request(self, connection: Connection, message: dict[str, Any]) -> None:
        do = message.get("do")
        if do == "ready":
            self._waiting.append(connection)
            self._tell_ready()
        elif do == "tell":
            self._told.append(connection)
            self._strands.say(message["what"])
        elif do == "listen":
            self._asked.append((connection, message["path"]))
            self._strands.say({"do": "listen"})
        elif do == "pause":
            self._pausing.add(connection)
            self._monitor.ask("stop", {}, _passing_on(connection))
        elif do == "status":
            self._monitor.ask("query-status", {}, _passing_on(connection))
        elif do == "save":
            self._save(connection)

    def _resume(self) -> None:
        if not self._pausing:
            self._monitor.ask("cont", {}, _nothing)

    def _tell_ready(self) -> None:
        if self._is_ready:
            for connection in self._waiting:
                connection.send(encode({"say": "ready"}))
            self._waiting.clear()

    def _hear(self, message: dict[str, Any]) -> None:
        """Take what the guest says; all of it is a claim."""
        say = message.get("say")
        if say == "ready":
            self._is_ready = True
            self._tell_ready()
        elif say == "listening" and self._asked:
            connection, path = self._asked.pop(0)
            port = message.get("port")
            if connection in self._connections and isinstance(port, int):
                self._ports[connection] = port
                self._paths[port] = path
            connection.send(encode(message))
        elif say in ("done", "refused") and self._told:
            self._told.pop(0).send(encode(message))

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
                self._loop.later(0.01, lambda: self._monitor.ask("query-migrate", {}, look))

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


def _accepting(
    listener: socket.socket, accepted: Callable[[socket.socket], None]
) -> Callable[[int], None]:
    def accept(_events: int) -> None:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        accepted(peer)

    return accept


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


__all__ = ["LEAVING_S", "SAID_BYTES", "Warden", "main"]
