"""What stands beside a place whose toolbox is reached over one stream, and outlives the engine.

It leads connections to the toolbox through the stream, and those to ports inside outward to the
engine's listeners. The engine asks it over a control socket, in frames of `wire`: `ready`, `listen`
(path of a socket for what comes to a port inside), and what the kind of place has of its own.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod

from .connection import Connection
from .strands import Strands
from .wire import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .loop import Loop, Timer
    from .sealing import Seal
    from .trunks import Trunk

SAID_BYTES = 8 * 1024  # kept of what the place says


class Attendant(ABC):
    """One of them. `given` holds the numbers of its descriptors; a kind says how it ends."""

    def __init__(self, loop: Loop, given: dict[str, Any]) -> None:
        self.loop = loop
        self.connections: set[Connection] = set()
        self.is_over = False
        self.ready: dict[str, Any] | None = None  # what came when it was up
        self._grace_s: float = given["grace_s"]
        self._grace: Timer | None = None
        self._listener = socket.socket(fileno=given["listen_fd"])
        self._control = socket.socket(fileno=given["control_fd"])
        self._said = bytearray()
        self._waiting: list[Connection] = []  # for the place to be up
        self._paths: dict[int, str] = {}  # of the engine's listeners, by port inside
        self._asked: list[tuple[Connection, str]] = []  # for a port, in order
        self._ports: dict[Connection, int] = {}

    def lead(self, trunk: Trunk, seal: Seal | None = None) -> None:
        """Take the stream that all goes through, and what marks its frames."""
        self.strands = Strands(
            self.loop,
            trunk,
            is_first=True,
            answer=self._answer,
            hear=self.hear,
            broken=self.on_broken,
            seal=seal,
        )
        self.strands.changed = self._count

    def run(self) -> None:
        """Serve until the place has ended."""
        self.accept(self._listener, self._lead)
        self.accept(self._control, self._greet)
        self._count()
        while not self.is_over:
            self.loop.turn()
        self.look()
        last = encode({"say": "ended", "said": self._said.decode("utf-8", "replace")})
        for connection in list(self.connections):
            connection.send(last)

    def accept(self, listener: socket.socket, accepted: Callable[[socket.socket], None]) -> None:
        """Call `accepted` with each that comes to a listening socket."""

        def accept(_events: int) -> None:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            accepted(peer)

        listener.setblocking(False)
        self.loop.watch(listener.fileno(), accept)

    def keep(self, said: bytes) -> None:
        """Keep the last of what the place says."""
        self._said = (self._said + said)[-SAID_BYTES:]

    @abstractmethod
    def look(self) -> None:
        """Take what it said at the very last."""

    @abstractmethod
    def kill(self) -> None:
        """End the place."""

    @abstractmethod
    def on_broken(self, why: str) -> None:
        """Act on the end of the stream."""

    def _count(self) -> None:
        """Begin or end the time that it may be without an engine."""
        if self._grace is not None:
            self._grace.cancel()
        self._grace = None
        if not self.connections and not self.strands.count:
            self._grace = self.loop.later(self._grace_s, self.kill)

    def _lead(self, peer: socket.socket) -> None:
        self.strands.open("toolbox", peer)

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
        self.connections.add(Connection(peer, self.loop, self.on_request, self.on_closed))
        self._count()

    def on_closed(self, connection: Connection) -> None:
        """Forget who asked, and the port that was theirs."""
        self.connections.discard(connection)
        port = self._ports.pop(connection, None)
        if port is not None:
            self._paths.pop(port, None)  # of what is said inside two may be the same
            self.strands.say({"do": "unlisten", "port": port})
        self._count()

    def on_request(self, connection: Connection, message: dict[str, Any]) -> None:
        """Do what the engine asks for."""
        do = message.get("do")
        if do == "ready":
            self._waiting.append(connection)
            self.tell_ready()
        elif do == "listen":
            self._asked.append((connection, message["path"]))
            self.strands.say({"do": "listen"})

    def tell_ready(self) -> None:
        """Answer those who wait for it to be up, once it is."""
        if self.ready is not None:
            for connection in self._waiting:
                connection.send(encode(self.ready))
            self._waiting.clear()

    def hear(self, message: dict[str, Any]) -> None:
        """Take what is said at the other end; all of it is a claim."""
        say = message.get("say")
        if say == "ready":
            self.ready = message
            self.tell_ready()
        elif say == "listening" and self._asked:
            connection, path = self._asked.pop(0)
            port = message.get("port")
            if connection in self.connections and isinstance(port, int):
                self._ports[connection] = port
                self._paths[port] = path
            connection.send(encode(message))


__all__ = ["SAID_BYTES", "Attendant"]
