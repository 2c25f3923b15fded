"""Bait listeners: what they hear shows who reached them."""

import asyncio
import contextlib
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

SERVICES = ("docker", "ssh-agent", "d-bus", "tmux", "database")
MOST_BYTES = 64 * 1024


@dataclass(kw_only=True)
class Heard:
    """What came, from whomever."""

    data: bytearray = field(default_factory=bytearray)

    def has(self, token: str) -> bool:
        """Whether somebody said this."""
        return token.encode() in self.data


class Listeners:
    """Listeners on loopback, under paths and abstract names. Open them with `async with`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._stack = contextlib.AsyncExitStack()
        self.heard = Heard()
        self.abstract, self.datagram = f"{name}-stream", f"{name}-datagram"
        self.paths = {each: str(folder / f"{each}.sock") for each in ("path", *SERVICES)}
        self.ports: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            for path in self.paths.values():
                await self._stream(stack, _open_unix(path))
            await self._stream(stack, _unix("\0" + self.abstract))
            await self._packets(stack, _unix("\0" + self.datagram, socket.SOCK_DGRAM))
            self.ports["tcp"] = await self._stream(stack, _bound(socket.AF_INET, "127.0.0.1"))
            udp = _bound(socket.AF_INET, "127.0.0.1", socket.SOCK_DGRAM)
            self.ports["udp"] = await self._packets(stack, udp)
            self.ports["tcp6"] = 0
            with contextlib.suppress(OSError):  # a machine without IPv6
                self.ports["tcp6"] = await self._stream(stack, _bound(socket.AF_INET6, "::1"))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _stream(self, stack: contextlib.AsyncExitStack, listener: socket.socket) -> int:
        server = await asyncio.start_server(self._answer, sock=listener)
        stack.callback(server.close)
        return _port(listener)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            self._note(await reader.read(MOST_BYTES))
            writer.write(b"heard")
            await writer.drain()
        await closed(writer)

    async def _packets(self, stack: contextlib.AsyncExitStack, listener: socket.socket) -> int:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)

        def receive() -> None:
            with contextlib.suppress(OSError):
                data, sender = listener.recvfrom(MOST_BYTES)
                self._note(data)
                if sender:
                    listener.sendto(b"heard", sender)

        loop.add_reader(listener, receive)
        stack.callback(listener.close)
        stack.callback(loop.remove_reader, listener)
        return _port(listener)

    def _note(self, data: bytes) -> None:
        if len(self.heard.data) < 16 * MOST_BYTES:
            self.heard.data += data


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection, whatever the other side did to it."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _unix(address: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, kind)
    try:
        made.bind(address)
    except OSError:
        made.close()
        raise
    made.setblocking(False)
    return made


def _open_unix(path: str) -> socket.socket:
    """Listen where everybody may connect: the wall is to be tried, not the mode."""
    made = _unix(path)
    Path(path).chmod(0o777)
    return made


def _bound(family: int, address: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    made = socket.socket(family, kind)
    try:
        made.bind((address, 0))
    except OSError:
        made.close()
        raise
    return made


def _port(listener: socket.socket) -> int:
    name = listener.getsockname()
    return int(name[1]) if isinstance(name, tuple) else 0


__all__ = ["MOST_BYTES", "SERVICES", "Heard", "Listeners", "closed"]
