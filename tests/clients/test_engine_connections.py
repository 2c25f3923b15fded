"""What is asked of a container engine is let go of, though the engine would say more.

The engine is a loopback server that keeps to the published API and never ends a build's answer.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from patchyard.clients.build_bounds import BuildWatch
from patchyard.clients.build_log import BuildLog
from patchyard.clients.docker import ContainerEngine, connected
from patchyard.domain.environment import Limits
from patchyard.domain.errors import EnvironmentUnavailable

pytestmark = pytest.mark.anyio

VERSION = b'{"ApiVersion": "1.43"}'
SAID = b'{"errorDetail": {"message": "no"}, "error": "no"}\n'
TIMEOUT_S = 120.0


class Endless:
    """An engine whose builds fail at once and never end."""

    def __init__(self) -> None:
        self.is_left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer `version`, and a build without an end."""
        while (line := await reader.readline()).strip():
            headers = await reader.readuntil(b"\r\n\r\n")
            if b"/version" in line:
                length = f"Content-Length: {len(VERSION)}\r\n\r\n".encode()
                kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                writer.write(kind + length + VERSION)
                continue
            if b"chunked" in headers:
                await reader.readuntil(b"0\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%s\r\n" % (len(SAID), SAID))
            await writer.drain()
            await reader.read()
            self.is_left.set()
        writer.close()


@asynccontextmanager
async def endless(directory: Path) -> AsyncIterator[tuple[Endless, ContainerEngine]]:
    """Yield such an engine, and a connection to it."""
    seen, place = Endless(), str(directory / "engine.sock")
    server = await asyncio.start_unix_server(seen.serve, place)
    async with server, connected(place) as engine:
        yield seen, engine


async def test_a_build_that_failed_is_closed_though_the_engine_goes_on(tmp_path: Path) -> None:
    archive = tmp_path / "context.tar"
    archive.write_bytes(b"")
    async with asyncio.timeout(TIMEOUT_S), endless(tmp_path) as (seen, engine):
        watch = BuildWatch(engine, Limits(), name="Dockerfile")
        with pytest.raises(EnvironmentUnavailable) as kept:
            await engine._answer(engine._built({}, archive, BuildLog("Dockerfile"), watch))
        await seen.is_left.wait()
    assert "no" in kept.value.message
