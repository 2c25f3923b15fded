"""What is asked of a container engine is let go of, though the engine would say more.

The engine is a loopback server that keeps to the published API and never ends a build's answer.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from patchyard.clients import build_log, docker
from patchyard.clients.build_bounds import BuildWatch
from patchyard.clients.build_log import BuildLog
from patchyard.clients.docker import ContainerEngine, connected
from patchyard.domain.environment import Limits
from patchyard.domain.errors import EnvironmentUnavailable

pytestmark = pytest.mark.anyio

STEP = b'{"stream": "Step 1/2 : RUN sleep 3600\\n"}\n{"stream": "one\\n"}\n'
VERSION = b'{"ApiVersion": "1.43"}'
FAILED = b'{"errorDetail": {"message": "no"}, "error": "no"}\n'
TIMEOUT_S = 120.0


class Endless:
    """An engine whose builds say something and never end."""

    def __init__(self, said: bytes) -> None:
        self.is_left = asyncio.Event()
        self.said = said

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
            writer.write(b"%x\r\n%s\r\n" % (len(self.said), self.said))
            await writer.drain()
            await reader.read()
            self.is_left.set()
        writer.close()


@asynccontextmanager
async def endless(
    directory: Path, said: bytes = FAILED
) -> AsyncIterator[tuple[Endless, ContainerEngine]]:
    """Yield such an engine, and a connection to it."""
    seen, place = Endless(said), str(directory / "engine.sock")
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


async def test_a_build_that_takes_too_long_is_told_with_its_time_and_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "context.tar"
    archive.write_bytes(b"")
    heard = asyncio.Event()

    class Hearing(BuildLog):
        def take(self, line: bytes) -> None:
            super().take(line)
            if b"one" in line:
                heard.set()

    async with asyncio.timeout(TIMEOUT_S), endless(tmp_path, STEP) as (seen, engine):
        watch = BuildWatch(engine, Limits(), name="Dockerfile")
        timeouts: list[asyncio.Timeout] = []
        timeout = asyncio.timeout

        def kept(delay: float | None) -> asyncio.Timeout:
            if delay == docker.BUILD_S:
                timeouts.append(timeout(delay))
                return timeouts[-1]
            return timeout(delay)

        monkeypatch.setattr(asyncio, "timeout", kept)
        building = asyncio.ensure_future(
            engine._answer(
                engine._built({}, archive, Hearing("Dockerfile"), watch), is_bounded=False
            )
        )
        await heard.wait()
        timeouts[0].reschedule(0.0)  # its half hour is over
        with pytest.raises(EnvironmentUnavailable) as overdue:
            await building
        await seen.is_left.wait()
    words = "Dockerfile does not build: `RUN sleep 3600`: it takes longer than 30m\none"
    assert (overdue.value.message, overdue.value.hint) == (words, build_log.OVERDUE_HINT)


@pytest.mark.parametrize("is_bounded", [True, False])
@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError()])
async def test_a_connection_that_broke_off_is_not_called_one_that_was_silent(
    error: OSError, is_bounded: bool
) -> None:
    async def asked() -> None:
        raise error

    engine = ContainerEngine(None, "/run/docker.sock")
    with pytest.raises(EnvironmentUnavailable, match="does not answer: the connection broke off"):
        await engine._answer(asked(), is_bounded=is_bounded)


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("mkdir /var/lib/docker/overlay2/x: no space left on device", "docker system prune"),
        ("invalid reference format", "agents doctor"),
    ],
)
async def test_what_the_engine_refuses_has_a_cure_that_fits(said: str, cure: str) -> None:
    from aiodocker import DockerError  # noqa: PLC0415 - an extra

    async def asked() -> None:
        raise DockerError(500, said)

    with pytest.raises(EnvironmentUnavailable, match=said) as refused:
        await ContainerEngine(None, "/run/docker.sock")._answer(asked())
    assert cure in refused.value.hint
