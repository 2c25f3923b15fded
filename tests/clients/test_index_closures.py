"""A page or a file of an index without a length is whole only where TLS says that it closed."""

import asyncio
from http.client import IncompleteRead
from pathlib import Path

import pytest

from clients.indexes import gate
from models.certificates import served_as
from models.loopback import Peer
from network.host_outages import OK, behaving, saying
from patchyard.clients.pypi import JSON_TYPE

pytestmark = pytest.mark.anyio

LINKS = b'<a href="/sample-1.0.zip">x</a>'
PAGE = OK + b"Content-Type: text/html\r\nConnection: close\r\n"
WITH_LENGTH = PAGE + f"Content-Length: {len(LINKS)}\r\n\r\n".encode() + LINKS
PLACE = "/pypi/simple/sample/"


@pytest.mark.parametrize(("fault", "status"), [("", 200), ("unclosed", 502)])
async def test_a_page_that_was_cut_is_no_page_and_is_not_kept(
    fault: str, status: int, tmp_path: Path
) -> None:
    certificate, tls = await asyncio.to_thread(served_as, "localhost", tmp_path)
    async with behaving(saying(PAGE + b"\r\n" + LINKS, fault), tls) as port:
        own = {"PIP_INDEX_URL": f"https://127.0.0.1:{port}/simple", "PIP_CERT": str(certificate)}
        async with gate(tmp_path, **own) as inside:
            got = await inside.get(PLACE)
    assert got.status == status
    async with gate(tmp_path, **own) as inside:  # no server listens there any more
        assert (await inside.get(PLACE)).status == status


@pytest.mark.parametrize("fault", ["", "unclosed"])
async def test_a_file_that_was_cut_stays_unfinished(fault: str, tmp_path: Path) -> None:
    certificate, tls = await asyncio.to_thread(served_as, "localhost", tmp_path)
    asked = 0

    async def page_then_file(peer: Peer) -> None:
        nonlocal asked
        asked += 1
        how = saying(WITH_LENGTH) if asked == 1 else saying(OK + b"\r\nhalf", fault)
        await how(peer)

    async with behaving(page_then_file, tls) as port:
        own = {"PIP_INDEX_URL": f"https://127.0.0.1:{port}/simple", "PIP_CERT": str(certificate)}
        async with gate(tmp_path, **own) as inside:
            page = await inside.get(PLACE, accept=JSON_TYPE)
            url = page.json["files"][0]["url"]
            if fault:
                with pytest.raises(IncompleteRead):
                    await inside.get(url)
            else:
                assert (await inside.get(url)).body == b"half"
