"""Many connections over one stream: how a toolbox is reached where no socket leads.

Both ends use it. A frame is a header (connection, kind, length) and its bytes, and a mark where
the stream is sealed. Each connection has
room for WINDOW_BYTES on its way, so that one that nobody reads holds up no other. A stream that
brings what cannot be ends with all its connections.
"""

from __future__ import annotations

import json
import socket
import struct

from .loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .loop import Loop, Timer
    from .sealing import Seal
    from .trunks import Trunk

HEADER = struct.Struct(">IBI")
OPEN, DATA, END, ROOM, TALK = range(5)
"""Kinds of frames; TALK holds a JSON object for whoever is at the other end itself."""
PIECE_BYTES = 64 * 1024
WINDOW_BYTES = 1024 * 1024
FULL_BYTES = 1024 * 1024  # waiting for the stream above it: connections are not read meanwhile
MOST_PENDING_BYTES = 32 * FULL_BYTES
"""Waiting for a stream that brings more all the while: what came asks for answers that it does not
take. Connections are not read by then, so only a stream that means harm gets there."""
MOST = 512  # connections at a time
NUMBER = struct.Struct(">I")
WHOLE_S = 30.0
"""Until a frame that has begun is whole: both ends send frames at once, of PIECE_BYTES at most."""


class Nonsense(Exception):
    """The other end sent what cannot be."""


class Strand:
    """One connection: a local socket here, its like at the other end."""

    def __init__(self, strands: Strands, number: int, peer: socket.socket) -> None:
        peer.setblocking(False)
        self._strands = strands
        self.number = number
        self._peer = peer
        self._room = WINDOW_BYTES  # that the other end still takes
        self._pending = bytearray()  # for the local socket
        self._taken = 0  # written locally, not yet told
        self._is_over = False  # nothing more will come
        self._events = 0
        self.watch()

    def watch(self) -> None:
        """Wait for what can be done now."""
        can_read = self._room > 0 and not self._strands.is_full
        events = (READ if can_read else 0) | (WRITE if self._pending else 0)
        if events == self._events:
            return
        self._events = events
        if events:
            self._strands.loop.watch(self._peer.fileno(), self._on_ready, events)
        else:
            self._strands.loop.unwatch(self._peer.fileno())

    def _on_ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if events & ~WRITE and self._peer.fileno() >= 0:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._peer.recv(min(PIECE_BYTES, self._room)) if self._room else b""
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._strands.drop(self, tell=True)
            return
        self._room -= len(data)
        self._strands.send(self.number, DATA, data)
        self.watch()

    def take(self, data: bytes) -> None:
        """Pass on what came. Raises Nonsense when it is more than was asked for."""
        self._pending += data
        if len(self._pending) > WINDOW_BYTES:
            raise Nonsense("more than its room")
        self._flush()

    def widen(self, count: int) -> None:
        """Note that the other end takes `count` bytes more."""
        self._room += count
        if self._room > WINDOW_BYTES:
            raise Nonsense("more room than there is")
        self.watch()

    def finish(self) -> None:
        """Close once all that came is passed on."""
        self._is_over = True
        if not self._pending:
            self._strands.drop(self, tell=False)

    def _flush(self) -> None:
        try:
            while self._pending:
                sent = self._peer.send(self._pending)
                del self._pending[:sent]
                self._taken += sent
        except BlockingIOError:
            pass
        except OSError:
            self._strands.drop(self, tell=not self._is_over)
            return
        if self._is_over and not self._pending:
            self._strands.drop(self, tell=False)
            return
        if self._taken >= PIECE_BYTES or (self._taken and not self._pending):
            self._strands.send(self.number, ROOM, NUMBER.pack(self._taken))
            self._taken = 0
        self.watch()

    def close(self) -> None:
        """Let go of the local socket."""
        if self._events:
            self._strands.loop.unwatch(self._peer.fileno())
            self._events = 0
        self._peer.close()


class Strands:
    """One end of the stream.

    `answer` returns a connected socket for what the other end opened by name, or None to refuse;
    `hear` gets what it says; `broken` is called once when the stream has ended. With a `seal` only
    frames that the other end marked count; any other ends the stream.
    """

    def __init__(
        self,
        loop: Loop,
        stream: Trunk,
        *,
        is_first: bool,
        answer: Callable[[str], socket.socket | None],
        hear: Callable[[dict[str, Any]], None],
        broken: Callable[[str], None],
        seal: Seal | None = None,
    ) -> None:
        self.loop = loop
        self.is_full = False
        self._stream = stream
        self._next = 1 if is_first else 2
        self._is_first = is_first
        self._seal = seal
        self._mark_bytes = seal.size if seal else 0
        self._begun: Timer | None = None  # since part of a frame is here
        self._answer, self._hear, self._broken = answer, hear, broken
        self._open: dict[int, Strand] = {}
        self._came = bytearray()
        self._pending = bytearray()
        self._is_open = True
        self._is_behind = False  # the stream takes no more now
        self.changed: Callable[[], None] = _nothing  # called when a connection has come or gone
        loop.watch(stream.reads, self._on_ready, READ)

    @property
    def count(self) -> int:
        """How many of those are open that this end opened."""
        return sum(number % 2 == self._next % 2 for number in self._open)

    def open(self, name: str, peer: socket.socket) -> None:
        """Connect `peer` to what the other end has under `name`; it is closed from there else."""
        number = self._next
        self._next += 2
        self.send(number, OPEN, name.encode("ascii"))
        self._open[number] = Strand(self, number, peer)
        self.changed()

    def say(self, message: dict[str, Any]) -> None:
        """Say something to the other end itself."""
        self.send(0, TALK, json.dumps(message, separators=(",", ":")).encode("ascii"))

    def send(self, number: int, kind: int, data: bytes) -> None:
        """Send a frame, now or when the stream takes it."""
        if not self._is_open:
            return
        head = HEADER.pack(number, kind, len(data))
        self._pending += head + data
        if self._seal is not None:
            self._pending += self._seal.mark(head, data)
        if not self._is_behind:
            self._flush()

    def drop(self, strand: Strand, *, tell: bool) -> None:
        """End a connection; `tell` the other end unless it ended it."""
        if self._open.pop(strand.number, None) is None:
            return
        strand.close()
        if tell:
            self.send(strand.number, END, b"")
        self.changed()

    def _on_ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if events & ~WRITE and self._is_open:
            self._receive()

    def _flush(self) -> None:
        try:
            while self._pending:
                del self._pending[: self._stream.write(self._pending[:PIECE_BYTES])]
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(str(error))
            return
        if self._is_behind != bool(self._pending):
            self._is_behind = bool(self._pending)
            self._watch_for_room()
        is_full = len(self._pending) > FULL_BYTES
        if is_full != self.is_full:
            self.is_full = is_full
            for strand in list(self._open.values()):
                strand.watch()

    def _watch_for_room(self) -> None:
        stream = self._stream
        if stream.writes == stream.reads:
            self.loop.watch(stream.reads, self._on_ready, READ | WRITE if self._is_behind else READ)
        elif self._is_behind:
            self.loop.watch(stream.writes, self._on_room, WRITE)
        else:
            self.loop.unwatch(stream.writes)

    def _on_room(self, _events: int) -> None:
        self._flush()

    def _receive(self) -> None:
        try:
            data = self._stream.read()
        except BlockingIOError:
            return
        except OSError as error:
            self._end(str(error))
            return
        if not data:
            self._end("the other end is gone")
            return
        self._came += data
        try:
            self._sort()
        except (Nonsense, ValueError, RecursionError) as error:
            self._end("nonsense came: %s" % error)

    def _sort(self) -> None:
        start = 0
        came = self._came
        while len(came) - start >= HEADER.size and self._is_open:
            number, kind, length = HEADER.unpack_from(came, start)
            if length > PIECE_BYTES:
                raise Nonsense("a frame of %d bytes" % length)
            begin = start + HEADER.size
            end = begin + length + self._mark_bytes
            if len(came) < end:
                break
            data = bytes(came[begin : begin + length])
            if self._seal is not None and not self._seal.fits(
                bytes(came[start:begin]), data, bytes(came[begin + length : end])
            ):
                raise Nonsense("a frame that the other end did not send")
            start = end
            self._handle(number, kind, data)
            if len(self._pending) > MOST_PENDING_BYTES:
                raise Nonsense("it does not take what it asks for")
        del came[:start]
        self._expect(is_new=start > 0)

    def _expect(self, *, is_new: bool) -> None:
        """Give the rest of a frame that has begun its time."""
        if self._begun is not None and (is_new or not self._came):
            self._begun.cancel()
            self._begun = None
        if self._came and self._begun is None and self._is_open:
            self._begun = self.loop.later(WHOLE_S, self._give_up)

    def _give_up(self) -> None:
        self._end("nonsense came: a frame that does not end")

    def _handle(self, number: int, kind: int, data: bytes) -> None:
        if kind == TALK:
            message = json.loads(data)
            if not isinstance(message, dict):
                raise Nonsense("no object")
            self._hear(message)
        elif kind == OPEN:
            self._on_open(number, data.decode("ascii"))
        elif kind in (DATA, END, ROOM):
            self._on_strand(number, kind, data)
        else:
            raise Nonsense("a frame of no kind")

    def _on_strand(self, number: int, kind: int, data: bytes) -> None:
        strand = self._open.get(number)
        if strand is None:
            return  # we ended it, and that is on its way
        if kind == DATA:
            strand.take(data)
        elif kind == END:
            strand.finish()
        elif len(data) == NUMBER.size:
            strand.widen(NUMBER.unpack(data)[0])
        else:
            raise Nonsense("room of no size")

    def _on_open(self, number: int, name: str) -> None:
        if number in self._open or number % 2 == (1 if self._is_first else 0):
            raise Nonsense("a connection that is ours")
        peer = self._answer(name) if len(self._open) < MOST else None
        if peer is None:
            self.send(number, END, b"")
        else:
            self._open[number] = Strand(self, number, peer)

    def _end(self, why: str) -> None:
        self.close()
        self._broken(why)

    def close(self) -> None:
        """End all connections; the stream stays the caller's."""
        if self._is_open:
            self._is_open = False
            if self._begun is not None:
                self._begun.cancel()
            self.loop.unwatch(self._stream.reads)
            if self._stream.writes != self._stream.reads:
                self.loop.unwatch(self._stream.writes)
            for strand in self._open.values():
                strand.close()
            self._open.clear()


def _nothing() -> None:
    """Take no notice."""


__all__ = [
    "FULL_BYTES",
    "HEADER",
    "MOST",
    "MOST_PENDING_BYTES",
    "PIECE_BYTES",
    "WHOLE_S",
    "WINDOW_BYTES",
    "Nonsense",
    "Strand",
    "Strands",
]
