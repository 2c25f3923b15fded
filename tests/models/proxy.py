"""A real HTTP proxy on loopback: it forwards, opens tunnels, and knows names nobody else knows."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

USER, PASSWORD = "company", "pr0xy-pass/word"  # the slash is written %2F in an address


@dataclass(kw_only=True)
class LoopbackProxy:
    """Leads every name to the one address behind it."""

    behind: int  # port on loopback
    is_open: bool = True  # False: who one is must be said
    asked: list[str] = field(default_factory=list)  # first lines of requests
    _tasks: set[asyncio.StreamWriter] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve, and give HOST:PORT."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for writer in list(self._tasks):
                writer.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._one(reader, writer)
        finally:
            self._tasks.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.splitlines()
        self.asked.append(first)
        pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if not self.is_open and f"proxy-authorization: basic {pair}".lower() not in head.lower():
            body = f"who are you? you said {PASSWORD} {pair}".encode()
            length = f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            writer.write(f"HTTP/1.1 407 No {PASSWORD}\r\n{length}".encode() + body)
            await writer.drain()
            return
        method, target, version = first.split(" ")
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.behind)
        self._tasks.add(far_writer)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = "/" + target.split("/", 3)[3]
            kept = [line for line in lines if not line.lower().startswith("proxy-")]
            far_writer.write("\r\n".join([f"{method} {path} {version}", *kept, ""]).encode())
        async with asyncio.TaskGroup() as both:
            both.create_task(_pumped(reader, far_writer))
            both.create_task(_pumped(far_reader, writer))


async def _pumped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
