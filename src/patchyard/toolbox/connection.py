"""One engine's connection: frames in, frames out, never blocking."""

from __future__ import annotations

import array
import socket

from .loop import READ, WRITE
from .wire import Decoder, WireError, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .loop import Loop

PIECE_BYTES = 256 * 1024
STREAMED_BYTES = 1024 * 1024  # pending above it: output is not streamed, the result has it
TEXT_CHARS = 1024 * 1024  # in a frame of output: six bytes each, where they are not UTF-8
PENDING_BYTES = 256 * 1024 * 1024  # pending above it: the peer does not read, give it up


class Connection:
    """A peer; also the watcher of its calls."""

    def __init__(
        self,
        peer: socket.socket,
        loop: Loop,
        on_message: Callable[[Connection, dict[str, Any]], None],
        on_closed: Callable[[Connection], None],
    ) -> None:
        self._peer = peer
        self._loop = loop
        self._on_message = on_message
        self._on_closed = on_closed
        self._decoder = Decoder()
        self._pending = bytearray()
        self._is_open = True
        self._is_behind = False
        loop.watch(peer.fileno(), self._on_ready)

    def _on_ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if self._is_open and events & ~WRITE:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._peer.recv(PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            messages = self._decoder.feed(data)
        except WireError:
            self.close()
            return
        for message in messages:
            if self._is_open:
                self._on_message(self, message)

    def send(self, frame: bytes) -> None:
        """Send a frame, now or when the peer reads."""
        if not self._is_open:
            return
        was_empty = not self._pending
        self._pending += frame
        if was_empty:
            self._flush()

    def send_descriptor(self, frame: bytes, descriptor: int) -> None:
        """Send a frame with a descriptor on it. Raises BlockingIOError when others wait."""
        if self._pending:
            raise BlockingIOError("other frames wait on this connection")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        sent = self._peer.sendmsg([frame], rights)
        self._pending += frame[sent:]
        self._flush()

    def _flush(self) -> None:
        try:
            while self._pending:
                sent = self._peer.send(self._pending)
                del self._pending[:sent]
        except BlockingIOError:
            if len(self._pending) > PENDING_BYTES:
                self.close()
                return
        except OSError:
            self.close()
            return
        if self._is_behind != bool(self._pending):
            self._is_behind = bool(self._pending)
            events = READ | WRITE if self._is_behind else READ
            self._loop.watch(self._peer.fileno(), self._on_ready, events)

    def on_output(self, call_id: str, stream: str, text: str) -> None:
        """Stream a piece of output; a peer that does not keep up misses some."""
        for start in range(0, len(text), TEXT_CHARS):  # what was kept comes as one, and may be long
            if len(self._pending) >= STREAMED_BYTES:
                return
            part = text[start : start + TEXT_CHARS]
            self.send(encode({"say": "output", "call_id": call_id, "stream": stream, "text": part}))

    def on_result(self, frame: bytes) -> None:
        """Send a result."""
        self.send(frame)

    def close(self) -> None:
        """Drop the peer."""
        if self._is_open:
            self._is_open = False
            self._loop.unwatch(self._peer.fileno())
            self._peer.close()
            self._on_closed(self)


__all__ = ["PENDING_BYTES", "PIECE_BYTES", "STREAMED_BYTES", "TEXT_CHARS", "Connection"]
