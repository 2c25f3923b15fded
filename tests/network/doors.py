"""A plan's gateways on this machine's own loopback, as an environment would see them."""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.dialling import Resolve, resolved
from patchyard.clients.plan_network import PlanNetwork, open_network
from patchyard.contracts.gateway import Counting
from patchyard.domain.addresses import parted
from patchyard.domain.carrying import NetworkBounds
from patchyard.domain.network import NetworkGrant
from patchyard.domain.traffic import Attempt

__all__ = ["Door", "door", "hello"]

UNBOUNDED = NetworkBounds()


@dataclass(kw_only=True)
class Door:
    """What an environment sees."""

    network: PlanNetwork
    port: int
    variables: Mapping[str, str]
    counting: Counting

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def raw(self, request: bytes) -> bytes:
        """Send bytes as they are; what came back until the other side closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            async with asyncio.timeout(120):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def ask(
        self, target: str, *headers: str, method: str = "GET", body: bytes = b""
    ) -> bytes:
        """Send one request, with its `Host` where the target is absolute."""
        lines = [f"{method} {target} HTTP/1.1", *headers]
        if target.startswith("http"):
            lines.append(f"Host: {re.split(r'[/?]', target)[2]}")
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return await self.raw("\r\n".join([*lines, "", ""]).encode() + body)

    async def tunnel(
        self, place: str, context: ssl.SSLContext | None, *, name: str | None = "localhost"
    ) -> "Tunnel":
        """Open a CONNECT to `place`; raises PermissionError with the refusal."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        async with asyncio.timeout(120):
            head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            writer.close()
            raise PermissionError(head.decode())
        if context is not None:
            async with asyncio.timeout(120):
                await writer.start_tls(context, server_hostname=name)
        return Tunnel(reader=reader, writer=writer)

    def attempts(self) -> Sequence[Attempt]:
        return self.network.tried().attempts

    async def told(self, count: int) -> Sequence[Attempt]:
        """Wait until so many attempts are over."""
        found: list[Attempt] = []
        async with asyncio.timeout(120):
            while len(found) < count:
                await asyncio.sleep(0)
                found += self.network.tried().attempts
        return found


@dataclass(kw_only=True)
class Tunnel:
    """An open tunnel."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def get(self, path: str) -> bytes:
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(120):
            return await self.reader.read()

    def close(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def door(
    grant: NetworkGrant,
    home: Path,
    *,
    resolve: Resolve = resolved,
    spent: int = 0,
    more: Mapping[str, str] | None = None,
    bounds: NetworkBounds = UNBOUNDED,
) -> AsyncIterator[Door]:
    """Open a grant."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "PATCHYARD_HOME": str(home)}
    environ |= more or {}
    async with open_network(grant, environ, spent=spent, resolve=resolve) as network:
        listener = socket.create_server(("127.0.0.1", 0))
        port = parted(f"127.0.0.1:{listener.getsockname()[1]}")[1] or 0
        async with network.serve(listener, port=port, bounds=bounds) as opened:
            counting = opened.counting
            variables = opened.variables
            yield Door(network=network, port=port, variables=variables, counting=counting)


def hello(name: str | None) -> bytes:
    """Return the first bytes of a client that asks for `name` by TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError
