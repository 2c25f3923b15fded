"""A connection by TLS that ends is told and asked again as one without TLS."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from models.certificates import served_as
from models.loopback import Peer
from models.test_provider_troubles import ASKED, SPEAKERS, broken
from patchyard.clients.http import HttpClient, HttpTrouble, Trouble
from patchyard.domain.errors import ModelFailed

pytestmark = pytest.mark.anyio

ENDS = ("drop", "cut", "reset", "reset-in-stream")
DAMAGES = ("damaged", "damaged-in-stream")  # of records, which TLS alone has


@pytest.mark.parametrize("fmt", SPEAKERS)
@pytest.mark.parametrize(
    ("scheme", "fault"),
    [*(("http", fault) for fault in ENDS), *(("https", fault) for fault in (*ENDS, *DAMAGES))],
)
async def test_a_connection_that_ends_is_asked_again(
    fmt: str, scheme: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, tls = served_as("localhost", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with broken(fmt, fault, tls=tls if scheme == "https" else None) as (server, model):
        with pytest.raises(ModelFailed, match="the connection ended in the middle") as caught:
            await model.complete(ASKED)
        assert caught.value.retryable
        assert (await model.complete(ASKED)).message.text.startswith("one two")
    assert server.connections == 2


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("drop", Trouble.CUT),
        ("reset", Trouble.CUT),
        ("alert", Trouble.TLS),
        ("answer", Trouble.TLS),
    ],
)
async def test_a_handshake_that_ends_is_cut_and_one_that_is_refused_is_not(
    fault: str, kind: Trouble
) -> None:
    async with meeting(fault) as url, HttpClient(url) as client:
        with pytest.raises(HttpTrouble) as caught:
            await client.fetch("/models")
    assert caught.value.kind is kind


@asynccontextmanager
async def meeting(fault: str) -> AsyncIterator[str]:
    """Serve what lets each handshake fail."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10_000)
        peer = Peer(reader, writer)
        if fault == "alert":  # handshake_failure
            await peer.send(b"\x15\x03\x03\x00\x02\x02\x28")
        elif fault == "answer":
            await peer.send(b"HTTP/1.1 400 X\r\n\r\n")
        await peer.fail(fault)
        writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
