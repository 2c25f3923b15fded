"""Hosts that answer badly, or whose connection ends, by TLS or without: the gateway says so."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from models.loopback import Peer
from network.conftest import Authority
from network.doors import door
from network.test_forwarded_requests import TOKEN
from patchyard.domain.network import NetworkGrant

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def saying(
    answer: bytes, *, tls: ssl.SSLContext | None = None, fault: str = ""
) -> AsyncIterator[int]:
    """A host that says the same bytes to everybody and ends as told; yields its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await Peer(reader, writer).fail(fault)
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "begins", "reason"),
    [
        (b"nonsense\r\n\r\n", b"HTTP/1.1 502 ", "answered badly"),
        (b"", b"HTTP/1.1 502 ", "answered badly"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", b"HTTP/1.1 200 ", "broke off"),
    ],
)
async def test_a_host_that_answers_badly_is_said_to(
    tmp_path: Path, answer: bytes, begins: bytes, reason: str
) -> None:
    async with saying(answer) as port:
        place = f"http://127.0.0.1:{port}"
        async with door(NetworkGrant(hosts=(place,)), tmp_path) as inside:
            said = await inside.ask(f"{place}/x")
            (attempt,) = inside.attempts()
    assert said.startswith(begins)
    assert (attempt.verdict, reason in attempt.reason) == ("failed", True)


@pytest.mark.parametrize(
    ("scheme", "fault"), [("http", "reset"), ("https", "reset"), ("https", "damaged")]
)
@pytest.mark.parametrize(
    ("answer", "begins", "reason"),
    [
        (b"", b"HTTP/1.1 502 ", "answered badly"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", b"HTTP/1.1 200 ", "broke off"),
    ],
)
async def test_a_host_whose_connection_ends_is_said_to_by_tls_as_without(
    tmp_path: Path,
    authority: Authority,
    scheme: str,
    fault: str,
    answer: bytes,
    begins: bytes,
    reason: str,
) -> None:
    tls = authority.server if scheme == "https" else None
    more = {"SSL_CERT_FILE": str(authority.file), "TOKEN": TOKEN}
    async with saying(answer, tls=tls, fault=fault) as port:
        place = f"{'http://' if tls is None else ''}localhost:{port}"
        grant = NetworkGrant(secrets=(f"TOKEN@{place}",))
        async with door(grant, tmp_path, more=more) as inside:
            said = await inside.ask(f"/to/{place}/x" if tls else f"{place}/x")
            (attempt,) = inside.attempts()
    assert said.startswith(begins)
    assert (attempt.verdict, reason in attempt.reason) == ("failed", True)


async def test_headers_that_split_an_answer_do_not_pass(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 Fine\r\nLocation: /a\rSet-Cookie: x\r\nContent-Length: 0\r\n\r\n"
    async with saying(answer) as port:
        place = f"http://127.0.0.1:{port}"
        async with door(NetworkGrant(hosts=(place,)), tmp_path) as inside:
            said = await inside.ask(f"{place}/x")
    assert b"\rSet-Cookie" not in said
