"""A connection to a package index that is not made, and an answer that is not begun."""

import asyncio
from pathlib import Path

import pytest

from clients.indexes import Inside, gate
from models.certificates import authority_in, signed_in
from models.loopback import Peer
from network.host_outages import OK, SCHEMES, behaving, dripping, saying, taken, unanswering
from patchyard.clients import upstream
from patchyard.clients.pypi import JSON_TYPE

pytestmark = pytest.mark.anyio

PLACE = "/pypi/simple/sample/"
PAGE = b'<a href="/sample-1.0.zip">x</a>'
WELL = OK + b"Content-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (
    len(PAGE),
    PAGE,
)
HEADERS = {
    "cut in the first line": saying(b"HTTP/1.1 20"),
    "reset in the first line": saying(b"HTTP/1.1 20", "reset"),
    "cut in the headers": saying(OK + b"Content-Le"),
    "reset in the headers": saying(OK + b"Content-Le", "reset"),
    "no end of the headers": dripping(OK, b"X: " + b"x" * 8_000 + b"\r\n"),
    "silent in the headers": saying(OK + b"Content-Le", "silent"),
    "slow headers": dripping(OK + b"X: ", b"x"),
}
LATE = ("silent in the headers", "slow headers")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    authority_in(folder)
    return folder


def settings(scheme: str, port: int, own: Path) -> dict[str, str]:
    index = {"PIP_INDEX_URL": f"{scheme}://localhost:{port}/simple"}
    return {**index, "PIP_CERT": str(own / "ca.pem")}


def be_impatient(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setattr(upstream, name, 0.3)


async def page_of(inside: Inside) -> bytes:
    """Ask for a page, which fails; return what is said of it."""
    async with asyncio.timeout(60):
        got = await inside.get(PLACE)
    assert got.status == 502
    return got.body


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("fault", ["refused", "unanswered"])
async def test_an_index_that_takes_no_connection_cannot_be_reached(
    fault: str, scheme: str, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_impatient(monkeypatch, "CONNECT_TIMEOUT_S")
    with unanswering() if fault == "unanswered" else taken() as port:
        async with gate(tmp_path, **settings(scheme, port, own)) as inside:
            said = [await page_of(inside) for _ in range(2)]
    assert said == [
        b"the index cannot be reached\n",
        b"the index could not be reached a moment ago\n",
    ]


async def test_an_index_whose_handshake_is_silent_cannot_be_reached(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_impatient(monkeypatch, "CONNECT_TIMEOUT_S")
    async with (
        behaving(saying(b"", "silent"), None, is_raw=True) as port,
        gate(tmp_path, **settings("https", port, own)) as inside,
    ):
        assert await page_of(inside) == b"the index cannot be reached\n"


@pytest.mark.parametrize(("name", "days"), [("localhost", -1), ("other.example", 2)])
async def test_an_index_with_a_wrong_certificate_is_asked_nothing(
    name: str, days: int, own: Path, tmp_path: Path
) -> None:
    asked: list[Peer] = []

    async def hear(peer: Peer) -> None:
        asked.append(peer)

    context = await asyncio.to_thread(lambda: signed_in(own, name, days=days))
    async with (
        behaving(hear, context, is_raw=True) as port,
        gate(tmp_path, **settings("https", port, own)) as inside,
    ):
        assert (await page_of(inside)).startswith(b"the index cannot be reached")
    assert asked == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("fault", HEADERS)
async def test_a_page_that_is_not_begun_is_said(
    fault: str, scheme: str, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault in LATE:
        be_impatient(monkeypatch, "PAGE_TIMEOUT_S")
    context = await asyncio.to_thread(signed_in, own, "localhost") if scheme == "https" else None
    async with (
        behaving(HEADERS[fault], context) as port,
        gate(tmp_path, **settings(scheme, port, own)) as inside,
    ):
        said = await page_of(inside)
    assert said.startswith(b"the index did not answer in time" if fault in LATE else b"the index ")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("fault", HEADERS)
async def test_a_file_that_is_not_begun_is_said_within_its_time(
    fault: str, scheme: str, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Peer] = []

    async def page_then_fault(peer: Peer) -> None:
        asked.append(peer)
        await (saying(WELL) if len(asked) == 1 else HEADERS[fault])(peer)

    context = await asyncio.to_thread(signed_in, own, "localhost") if scheme == "https" else None
    async with (
        behaving(page_then_fault, context) as port,
        gate(tmp_path, **settings(scheme, port, own)) as inside,
    ):
        page = await inside.get(PLACE, accept=JSON_TYPE)
        if fault in LATE:
            be_impatient(monkeypatch, "ANSWER_TIMEOUT_S")
        async with asyncio.timeout(60):
            got = await inside.get(page.json["files"][0]["url"])
    assert got.status == 502
    assert len(asked) == 2
