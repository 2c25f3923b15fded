"""A small HTTP/1.1 server for gateways: GET and HEAD of plain paths, nothing else.

Who asks is hostile. It is no proxy: absolute addresses, CONNECT, bodies and climbing paths are
refused here, before a gateway sees them.
"""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote

from patchyard.clients.connection_ends import WRITE_TIMEOUT_S, finish, reset
from patchyard.clients.leaving import while_wanted
from patchyard.clients.shared_sockets import Acceptor
from patchyard.engine.enduring import Enduring

HEAD_BYTES = 32 * 1024
HEAD_TIMEOUT_S = 120.0  # from one request to the next
CONNECTIONS = 64
AWAY_TIMEOUT_S = 5.0  # for what is turned away to say what it wants, so that it hears why not
AWAY = 8  # connections that may be turned away at once
PIECE = 256 * 1024
_REQUEST = re.compile(r"([A-Z]+) (\S+) HTTP/1\.[01]")
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request, read and found harmless."""

    method: str  # GET or HEAD
    segments: tuple[str, ...]  # of the path, decoded; none is empty, "." or ".."
    headers: Mapping[str, str] = field(repr=False)  # names in lower case
    path: str  # as it came, without its query

    @property
    def span(self) -> str | None:
        """The Range header, when it asks for one range of bytes."""
        text = self.headers.get("range", "")
        return text if _RANGE.fullmatch(text) and text != "bytes=-" else None


class Refused(Exception):
    """A request that gets its answer from the server itself."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Guard(Protocol):
    """Counts what passes, and says when it is enough."""

    def count(self, count: int) -> None:
        """Count bytes before they are handed on. Raises Refused when it is enough."""
        ...

    def connection(self) -> AbstractContextManager[Refused | None]:
        """Count a connection while it lasts; yield why it must be turned away, if it must."""
        ...


class Open:
    """The guard that lets all pass."""

    def count(self, count: int) -> None:
        """See Guard."""

    def connection(self) -> AbstractContextManager[None]:
        """See Guard."""
        return nullcontext()


FREE = Open()


class Exchange:
    """One request and the answer to it, which is begun once."""

    def __init__(
        self,
        asked: Asked,
        writer: asyncio.StreamWriter,
        *,
        count: Callable[[int], None] = FREE.count,
    ) -> None:
        self.asked = asked
        self._count = count
        self.status: HTTPStatus | None = None
        self.sent = 0  # bytes of the body
        self._writer = writer
        self._is_chunked = False
        self._left: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all that was announced has been sent, so that the connection may go on."""
        return self.status is not None and not self._is_chunked and not self._left

    async def reply(
        self, status: HTTPStatus, body: bytes, *, content_type: str = "text/plain; charset=utf-8"
    ) -> None:
        """Answer with a body that is there as a whole."""
        await self.begin(status, {"Content-Type": content_type}, length=len(body))
        await self.write(body)

    async def begin(
        self, status: HTTPStatus, headers: Mapping[str, str], *, length: int | None
    ) -> None:
        """Send the head. Without a length the body goes in chunks, ended by `end`."""
        lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
        lines += [f"{name}: {_header(value)}" for name, value in headers.items()]
        if self.asked.method == "HEAD":
            lines += [] if length is None else [f"Content-Length: {length}"]
        elif length is None:
            self._is_chunked = True
            lines.append("Transfer-Encoding: chunked")
        else:
            self._left = length
            lines.append(f"Content-Length: {length}")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self._count(len(head))
        self.status = status
        await self._put(head)

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body; nothing is sent for HEAD."""
        if self.asked.method == "HEAD" or not piece:
            return
        self._count(len(piece))
        self.sent += len(piece)
        if self._is_chunked:
            await self._put(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        elif self._left is not None:
            if len(piece) > self._left:
                raise ConnectionError("more came than was announced")
            self._left -= len(piece)
            await self._put(piece)

    async def end(self) -> None:
        """Say that a body without a length is whole."""
        if self._is_chunked:
            self._is_chunked = False
            await self._put(b"0\r\n\r\n")

    async def send_file(self, path: Path, *, content_type: str) -> None:
        """Send a regular file, or the range of it that was asked for."""
        with await asyncio.to_thread(path.open, "rb") as file:
            size = file.seek(0, 2)
            first, last = 0, size - 1
            headers = {"Content-Type": content_type, "Accept-Ranges": "bytes"}
            status = HTTPStatus.OK
            if self.asked.span is not None:
                first, last = _bounds(self.asked.span, size)
                status = HTTPStatus.PARTIAL_CONTENT
                headers["Content-Range"] = f"bytes {first}-{last}/{size}"
            await self.begin(status, headers, length=last - first + 1)
            if self.asked.method == "GET":
                await self._copy(file, first, last - first + 1)

    async def _copy(self, file: BinaryIO, start: int, length: int) -> None:
        file.seek(start)
        while length > 0:
            piece = await asyncio.to_thread(file.read, min(PIECE, length))
            if not piece:
                raise ConnectionError("the file became shorter")
            length -= len(piece)
            await self.write(piece)

    async def _put(self, data: bytes) -> None:
        self._writer.write(data)
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await self._writer.drain()


Answering = Callable[[Exchange], Awaitable[None]]


def _header(value: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "", value)


def _bounds(span: str, size: int) -> tuple[int, int]:
    """First and last byte of a range. Raises Refused where it lies outside."""
    match = _RANGE.fullmatch(span)
    first_text, last_text = match.groups() if match else ("", "")
    if not first_text:
        first, last = max(0, size - int(last_text)), size - 1
    else:
        first, last = int(first_text), min(int(last_text or size - 1), size - 1)
    if first > last:
        raise Refused(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "no such range")
    return first, last


Serving = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(
    listener: socket.socket, answering: Answering, *, guard: Guard
) -> AsyncIterator[None]:
    """Answer what comes in on `listener` until the end of the block; closes it then."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with guard.connection() as refusal:
            if refusal is not None:
                await turn_away(reader, writer, refusal)
                return
            while await _serve_one(reader, writer, answering, guard.count):
                pass

    async with accepting(listener, serve, connections=CONNECTIONS + AWAY):
        yield


async def turn_away(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refusal: Refused
) -> None:
    """Say why nothing passes, once it was asked: earlier, the answer could be lost."""
    with contextlib.suppress(TimeoutError, asyncio.LimitOverrunError):
        async with asyncio.timeout(AWAY_TIMEOUT_S):
            await reader.readuntil(b"\r\n\r\n")
    nothing, _ = _read_head(b"")
    said = f"{refusal}\n".encode()
    await Exchange(nothing, writer).reply(refusal.status, said)


@asynccontextmanager
async def accepting(
    listener: socket.socket, serve: Serving, *, connections: int = CONNECTIONS
) -> AsyncIterator[None]:
    """Give each connection to `serve`, so many at once; ends all and closes `listener` at the end.

    Trouble with a connection ends that one and nothing else.
    """
    acceptor = Acceptor(listener)
    taking = asyncio.create_task(_accept(acceptor, serve, connections))
    try:
        yield
    finally:
        taking.cancel()
        try:
            await asyncio.wait([taking])
        finally:
            await acceptor.close()


async def _accept(acceptor: Acceptor, serve: Serving, connections: int) -> None:
    free, endures = asyncio.Semaphore(connections), Enduring()
    async with asyncio.TaskGroup() as group:
        while True:
            await free.acquire()
            task = group.create_task(_serve(await acceptor.accept(), serve, endures))
            task.add_done_callback(lambda _: free.release())


async def _serve(connection: socket.socket, serve: Serving, endures: Enduring) -> None:
    with endures.passing("a connection to a gateway"):
        try:
            reader, writer = await asyncio.open_connection(sock=connection, limit=HEAD_BYTES)
        except BaseException:  # the other side has gone, or no descriptor is left
            connection.close()
            raise
        try:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                await serve(reader, writer)
            await finish(writer)
        finally:
            reset(writer)


async def _serve_one(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    answering: Answering,
    count: Callable[[int], None],
) -> bool:
    """Answer one request; return whether another may follow."""
    async with asyncio.timeout(HEAD_TIMEOUT_S):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            head = b""
    asked, refusal = _read_head(head)
    exchange = Exchange(asked, writer, count=count)
    try:
        if refusal is not None:
            raise refusal
        count(len(head))
        async with while_wanted(reader, lambda: exchange.sent):
            await answering(exchange)
    except Refused as refused:
        if exchange.status is not None:
            return False
        exchange = Exchange(asked, writer)
        await exchange.reply(refused.status, f"{refused}\n".encode())
    is_last = refusal is not None or asked.headers.get("connection", "").lower() == "close"
    return exchange.is_whole and not is_last


def _read_head(head: bytes) -> tuple[Asked, Refused | None]:
    nothing = Asked(method="GET", segments=(), headers={}, path="")
    try:
        return parse_head(head), None
    except Refused as refused:
        return nothing, refused


def parse_head(head: bytes) -> Asked:
    """Return the request that a head holds. Raises Refused."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    match = _REQUEST.fullmatch(first)
    if match is None:
        raise Refused(HTTPStatus.BAD_REQUEST, "no HTTP request")
    method, target = match.groups()
    if method not in {"GET", "HEAD"}:
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} does not pass this gateway")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise Refused(HTTPStatus.BAD_REQUEST, "no HTTP header")
        headers[name.lower()] = value.strip()
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise Refused(HTTPStatus.BAD_REQUEST, "a body does not pass this gateway")
    path = target.partition("?")[0]
    return Asked(method=method, segments=_segments(path), headers=headers, path=path)


def _segments(path: str) -> tuple[str, ...]:
    if not path.startswith("/") or path.startswith("//"):
        raise Refused(HTTPStatus.BAD_REQUEST, "this is a gateway to package indexes, no proxy")
    segments = tuple(unquote(part) for part in path.strip("/").split("/") if path != "/")
    for segment in segments:
        is_scoped = re.fullmatch(r"@[^/]+/[^/]+", segment) is not None  # npm writes @scope%2fname
        parts = segment.split("/") if is_scoped else [segment]
        if any(part in {"", ".", ".."} or re.search(r"[/\\\x00-\x1f\x7f]", part) for part in parts):
            raise Refused(HTTPStatus.BAD_REQUEST, "no plain path")
    return segments


__all__ = [
    "AWAY",
    "AWAY_TIMEOUT_S",
    "CONNECTIONS",
    "FREE",
    "HEAD_BYTES",
    "HEAD_TIMEOUT_S",
    "PIECE",
    "Answering",
    "Asked",
    "Exchange",
    "Guard",
    "Open",
    "Refused",
    "Serving",
    "accepting",
    "parse_head",
    "serving",
    "turn_away",
]
