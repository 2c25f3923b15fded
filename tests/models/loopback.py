"""A small HTTP server on loopback for providers of models that fail on request."""

import asyncio
import contextlib
import json
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from patchyard.models.scripted import ScriptedReply

Answering = Callable[[int], ScriptedReply]  # by the number of answers given before
Json = dict[str, Any]

ENDLESS_TOKENS = 200_000
NO_RECORD = b"\x17\x03\x03\x00\x20" + b"x" * 32  # has the head of one of TLS


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(
        self, status: int, body: Json | bytes, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body
        self.headers = dict(headers or {})


@dataclass(frozen=True, kw_only=True)
class Cue:
    """What is to be answered, to which request, and what goes wrong with it."""

    data: Json
    turn: int
    reply: ScriptedReply
    fault: str = ""


class Peer:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def whole(
        self, body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        await self.send(
            f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{more}"
            f"content-length: {len(text)}\r\n\r\n".encode()
            + text
        )

    async def begin(self, kind: str) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        await self.send(head.encode())

    async def chunk(self, data: bytes) -> None:
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    def reset(self) -> None:
        """End the connection as a machine does that has forgotten it."""
        taken = self.writer.get_extra_info("socket")
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def damage(self) -> None:
        """Send what is no record of TLS, as if it had been changed on the way."""
        os.write(self.writer.get_extra_info("socket").fileno(), NO_RECORD)
        await self.left()

    async def fail(self, fault: str) -> None:
        """Let the connection end in the way that a fault names; just so by default."""
        if fault.startswith("reset"):
            self.reset()
        elif fault.startswith("damaged"):
            await self.damage()

    async def left(self) -> None:
        """Wait until the client is gone."""
        while await self.reader.read(1024):
            pass


@dataclass(kw_only=True)
class LoopbackServer:
    """One HTTP/1.1 server; `faults` are taken one a request, then all goes well."""

    answering: Answering = lambda _turn: ScriptedReply(text="hello")
    faults: list[str] = field(default_factory=list)
    key: str = ""
    prefix: str = ""
    refusals: ClassVar[Mapping[str, Refusal]] = {}  # by the fault that asks for one
    streamed_as: ClassVar[str] = "text/event-stream; charset=utf-8"
    tls: ssl.SSLContext | None = None
    requests: list[Json] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)  # a request has come
    gone: asyncio.Event = field(default_factory=asyncio.Event)  # a client left in mid-answer
    _listener: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve, and give the address."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self._listener = server
        port = server.sockets[0].getsockname()[1]
        scheme = "https" if self.tls else "http"
        try:
            yield f"{scheme}://127.0.0.1:{port}{self.prefix}"
        finally:
            server.close()
            for writer in list(self._writers):
                writer.close()
            await server.wait_closed()

    def stop_listening(self) -> None:
        """Accept no further connection; those that are open stay."""
        if self._listener is not None:
            self._listener.close()

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        """Answer one request; return whether the connection stays."""
        raise NotImplementedError

    def fault(self) -> str:
        """Take the next fault; `status:N` refuses with that status, whatever the format."""
        fault = self.faults.pop(0) if self.faults else ""
        kind, _, status = fault.partition(":")
        if kind == "status":
            raise Refusal(int(status), {"error": f"no: {status}"})
        return fault

    def document(self, cue: Cue) -> Json:
        """The answer in one piece."""
        raise NotImplementedError

    def pieces(self, cue: Cue) -> list[bytes]:
        """What a stream says until it ends."""
        raise NotImplementedError

    def endings(self, cue: Cue) -> list[bytes]:
        """What a stream ends with; after a `late-error` it ends there."""
        raise NotImplementedError

    def said(self, text: str) -> bytes:
        """The piece of a stream that says `text`."""
        raise NotImplementedError

    async def answer(self, data: Json, turn: int, peer: Peer) -> bool:
        """Answer as scripted, or fail as asked for; return whether the connection stays."""
        fault = self.fault()
        if fault in self.refusals:
            raise self.refusals[fault]
        if fault in {"drop", "reset", "damaged"}:
            await peer.fail(fault)
            return False
        if fault == "mute":
            await peer.left()
            return False
        reply = ScriptedReply() if fault == "empty" else self.answering(turn)
        cue = Cue(data=data, turn=turn, reply=reply, fault=fault)
        if not data.get("stream"):
            await peer.whole(b"<html>" if fault == "garbage" else self.document(cue))
            return True
        await peer.begin(self.streamed_as)
        if fault == "endless":
            return await self._endless(peer)
        return await self._stream(cue, peer)

    async def _stream(self, cue: Cue, peer: Peer) -> bool:
        said = self.pieces(cue)
        for number, piece in enumerate(said):
            is_half = number == len(said) // 2
            if is_half and cue.fault in {"cut", "reset-in-stream", "damaged-in-stream"}:
                await peer.fail(cue.fault)
                return False
            if cue.fault == "silent" and number == 1:
                await peer.left()
                self.gone.set()
                return False
            for half in (piece[: len(piece) // 2], piece[len(piece) // 2 :]):
                await peer.chunk(half)
        for piece in self.endings(cue):
            await peer.chunk(piece)
        if cue.fault == "late-error":
            return False
        await peer.end()
        return True

    async def _endless(self, peer: Peer) -> bool:
        piece = self.said("word " * 20)
        for _ in range(ENDLESS_TOKENS // 20):
            await peer.chunk(piece)
        await peer.left()
        self.gone.set()
        return False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while await self._one(Peer(reader, writer)):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        finally:
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    async def _one(self, peer: Peer) -> bool:
        head = await peer.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("ascii").splitlines()
        method, path, _ = first.split(" ")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}
        body = await peer.reader.readexactly(int(headers.get("content-length", "0")))
        self.bodies.append(body)
        self.asked.set()
        try:
            self._authorise(headers)
            data = json.loads(body) if body else {}
            return await self.handle(method, path.removeprefix(self.prefix), data, peer)
        except Refusal as refusal:
            await peer.whole(refusal.body, status=refusal.status, headers=refusal.headers)
            return True

    def _authorise(self, headers: Mapping[str, str]) -> None:
        given = headers.get("authorization", "")
        if self.key and given != f"Bearer {self.key}":
            raise Refusal(401, {"error": {"message": f"Incorrect API key provided: {given[7:]}"}})


def pieces(text: str) -> list[str]:
    """Cut a text as a stream would."""
    return [text[start : start + 5] for start in range(0, len(text), 5)]
