"""A gateway's connection ends once all was taken, or by a reset: none waits without end."""

import asyncio
import contextlib
import socket

import pytest

from patchyard.clients import connection_ends
from patchyard.clients.gateway_server import accepting

pytestmark = pytest.mark.anyio

ANSWER = b"x" * 30_000_000


async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(ANSWER)


def all_of(program: socket.socket) -> int:
    """Count the bytes until the end. Raises ConnectionResetError for an end that is none."""
    count = 0
    while piece := program.recv(1 << 20):
        count += len(piece)
    return count


async def test_what_takes_nothing_is_reset_and_its_place_is_given_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_ends, "WRITE_TIMEOUT_S", 0.3)
    listener = socket.create_server(("127.0.0.1", 0))
    async with accepting(listener, answer, connections=1):
        with (
            socket.create_connection(listener.getsockname(), timeout=60) as first,
            socket.create_connection(listener.getsockname(), timeout=60) as second,
        ):
            await asyncio.to_thread(second.recv, 1, socket.MSG_PEEK)  # once the first is over
            with pytest.raises(ConnectionResetError):
                await asyncio.to_thread(all_of, first)


async def test_what_has_not_been_taken_when_the_gateway_ends_is_cut_by_a_reset() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    async with accepting(listener, answer):
        program = socket.create_connection(listener.getsockname(), timeout=60)
        await asyncio.to_thread(program.recv, 1, socket.MSG_PEEK)
    with program, pytest.raises(ConnectionResetError):
        await asyncio.to_thread(all_of, program)


async def test_what_is_taken_late_is_whole() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    async with accepting(listener, answer, connections=1):
        with socket.create_connection(listener.getsockname(), timeout=60) as program:
            await asyncio.to_thread(program.recv, 1, socket.MSG_PEEK)
            assert await asyncio.to_thread(all_of, program) == len(ANSWER)


async def test_a_defect_in_one_connection_ends_that_one_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1) == b"x":
            raise TypeError("a bug")
        writer.write(b"well")

    listener = socket.create_server(("127.0.0.1", 0))
    said = []
    async with accepting(listener, serve):
        for asked in (b"x", b"y"):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(asked)
            async with asyncio.timeout(60):
                with contextlib.suppress(ConnectionResetError):
                    said.append(await reader.read())
            writer.close()
    assert said == [b"well"]
    assert "a connection to a gateway: TypeError: a bug (in serve)" in caplog.text
