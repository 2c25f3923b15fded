"""Hosts that fail in one way each, granted to a plan, and a program inside that asks them."""

import asyncio
import contextlib
import http.client
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from models.loopback import Peer
from network.doors import Door, door
from network.test_forwarded_requests import TOKEN
from patchyard.domain.network import NetworkGrant
from patchyard.domain.traffic import Attempt

__all__ = [
    "OK",
    "SCHEMES",
    "Behaving",
    "Tls",
    "Way",
    "asking",
    "behaving",
    "dripping",
    "saying",
    "taken",
    "unanswering",
]

Behaving = Callable[[Peer], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\n"
SCHEMES = ("http", "https")


@dataclass(frozen=True)
class Tls:
    """The authority that is trusted, and servers' sides."""

    file: Path
    right: ssl.SSLContext
    others: Mapping[str, ssl.SSLContext]


@asynccontextmanager
async def behaving(
    how: Behaving, context: ssl.SSLContext | None, *, is_raw: bool = False
) -> AsyncIterator[int]:
    """A host that does one thing once a request is there, or (raw) a connection; its port."""

    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            serving.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await (reader.read(1) if is_raw else reader.readuntil(b"\r\n\r\n"))
                await how(Peer(reader, writer))
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]
        server.close()
        for task in serving:
            task.cancel()
        if serving:
            await asyncio.wait(serving)


def saying(data: bytes, fault: str = "") -> Behaving:
    """Say this, and let the connection end as told; a host that is silent stays."""

    async def say(peer: Peer) -> None:
        await peer.send(data)
        if fault == "silent":
            await peer.left()
        elif fault == "unclosed":  # without the word of TLS that it is closed
            peer.writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        await peer.fail(fault)

    return say


def dripping(head: bytes, piece: bytes) -> Behaving:
    async def drip(peer: Peer) -> None:
        await peer.send(head)
        while True:
            await peer.send(piece)
            await asyncio.sleep(0.01)

    return drip


class OldConnection(http.client.HTTPConnection):
    """A client that speaks HTTP/1.0, and so knows no chunks."""

    _http_vsn = 10
    _http_vsn_str = "HTTP/1.0"


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a program inside asks a host: its grant, and how an address is written there."""

    inside: Door
    place: str  # "http://localhost:1" or "localhost:1"

    @property
    def target(self) -> str:
        """What its requests name: an address, or a path of the gateway's where TLS is outside."""
        return f"{self.place}/x" if "//" in self.place else f"/to/{self.place}/x"

    @property
    def request(self) -> bytes:
        """A whole request."""
        host = f"Host: {self.place[7:]}\r\n" if "//" in self.place else ""
        return f"GET {self.target} HTTP/1.1\r\n{host}\r\n".encode()

    async def get(self, *, version: int = 11) -> tuple[int, bytes]:
        """Ask as Python's own client does, which is strict about what is not whole."""
        return await asyncio.to_thread(self._get, version)

    def _get(self, version: int) -> tuple[int, bytes]:
        kind = OldConnection if version == 10 else http.client.HTTPConnection
        connection = kind("127.0.0.1", self.inside.port, timeout=120)
        try:
            connection.request("GET", self.target)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    async def tried(self) -> Attempt:
        """What was told of the one request, once it is over."""
        (attempt,) = await self.inside.told(1)
        assert TOKEN not in repr(attempt)
        return attempt


@asynccontextmanager
async def asking(
    port: int, scheme: str, tls: Tls, home: Path, *, secret: bool = True
) -> AsyncIterator[Way]:
    """Open a grant of this host, and of one beside it that is well, asked at the end."""
    place = f"{'http://' if scheme == 'http' else ''}localhost:{port}"
    whole = OK + b"Content-Length: 4\r\n\r\nwell"
    async with behaving(saying(whole), None) as other:
        beside = f"http://localhost:{other}"
        grant = NetworkGrant(hosts=(place, beside), secrets=(f"TOKEN@{place}",) if secret else ())
        more = {"TOKEN": TOKEN, "SSL_CERT_FILE": str(tls.file)}
        async with door(grant, home, more=more) as inside:
            yield Way(inside=inside, place=place)
            inside.attempts()
            assert await Way(inside=inside, place=beside).get() == (200, b"well")


@contextmanager
def taken() -> Iterator[int]:
    """A port that is bound and that nothing listens at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def unanswering() -> Iterator[int]:
    """A port whose queue of connections is full: the kernel drops each further SYN."""
    with socket.socket() as listener, contextlib.ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
