"""Allowed hosts that answer as no honest one would."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from network.doors import door
from patchyard.clients import web_forwarding
from patchyard.domain.network import NetworkGrant

pytestmark = pytest.mark.anyio


async def raw_host(
    serve: Callable[[asyncio.StreamWriter], Awaitable[None]],
) -> tuple[asyncio.Server, int]:
    """A host that answers each request with what it likes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            await serve(writer)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def test_a_host_that_only_ever_announces_an_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_forwarding, "ANSWER_TIMEOUT_S", 0.2)

    async def announce(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")
            await writer.drain()

    server, port = await raw_host(announce)
    async with server, door(NetworkGrant(hosts=(f"http://localhost:{port}",)), tmp_path) as inside:
        said = await inside.ask(f"http://localhost:{port}/x", method="POST", body=b"body")
    assert said.startswith(b"HTTP/1.1 504 ")


async def test_an_answer_with_two_lengths_has_one_afterwards(tmp_path: Path) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head + b"5\r\nhello\r\n0\r\n\r\n")
        await writer.drain()

    server, port = await raw_host(answer)
    async with server, door(NetworkGrant(hosts=(f"http://localhost:{port}",)), tmp_path) as inside:
        said = await inside.ask(f"http://localhost:{port}/x")
    assert b"content-length" not in said
    assert said.endswith(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
