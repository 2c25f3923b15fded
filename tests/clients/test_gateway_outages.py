"""The outage drill of gateways: an index that fails in each way, with and without TLS.

What fails is said with 502 and in words, nothing unfinished passes as whole, a page that is kept
stands in, and once the index is well the gateway is too.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import IncompleteRead, RemoteDisconnected
from pathlib import Path

import pytest

from clients.indexes import Answer, Index, Inside, gate, indexing
from models.certificates import served_as
from patchyard.clients import upstream
from patchyard.clients.pypi import JSON_TYPE

pytestmark = pytest.mark.anyio

FILE = b"a file of some bytes"
LINK = b'<a href="/sample-1.0.zip">x</a>'
STATUS = ("408", "429", "500", "503")
ENDS = ("x_cut", "x_reset")
HANGS = ("x_mute", "x_silent")
OF_ANSWERS = (*STATUS, *ENDS, *HANGS)
WAYS = [
    *((fault, scheme) for fault in OF_ANSWERS for scheme in ("http", "https")),
    ("x_damaged", "https"),  # a record that is none, which TLS alone has
]
UNFINISHED = (IncompleteRead, RemoteDisconnected)
PLACE = "/pypi/simple/sample/"


@pytest.fixture
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def index(scheme: str, tmp_path: Path) -> Iterator[Index]:
    with ExitStack() as stack:
        if scheme == "https":
            served_as("localhost", tmp_path)
            pair = {"key": tmp_path / "key.pem", "certificate": tmp_path / "certificate.pem"}
            yield stack.enter_context(indexing(**pair))
        else:
            yield stack.enter_context(indexing())


def settings(index: Index, scheme: str, folder: Path) -> dict[str, str]:
    """Return what names the index, and whom to believe that it is it."""
    own = {"PIP_INDEX_URL": f"{scheme}://127.0.0.1:{index.port}/simple"}
    return {**own, "PIP_CERT": str(folder / "certificate.pem")} if scheme == "https" else own


def be_well(index: Index) -> None:
    index.say("/simple/sample/", LINK, content_type="text/html")
    index.say("/sample-1.0.zip", FILE)


def fail(index: Index, path: str, fault: str) -> None:
    """Let the answer at `path` fail from now on."""
    if fault in STATUS:
        index.answers[path] = Answer(status=int(fault))
    else:
        index.say(path, index.answers[path].body, content_type="text/html", **{fault: "1"})


def be_impatient(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Wait little for an index that hangs, and for no other: one that is well may be slow."""
    if fault in HANGS:
        monkeypatch.setattr(upstream, "READ_TIMEOUT_S", 0.5)
        monkeypatch.setattr(upstream, "PAGE_TIMEOUT_S", 0.5)


@pytest.mark.parametrize(("fault", "scheme"), WAYS, indirect=["scheme"])
async def test_a_page_that_fails_is_said_and_asked_again(
    fault: str, scheme: str, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_well(index)
    fail(index, "/simple/sample/", fault)
    with monkeypatch.context() as patched:
        be_impatient(patched, fault)
        async with gate(tmp_path, **settings(index, scheme, tmp_path)) as inside:
            failed = await inside.get(PLACE)
    assert failed.status == 502
    assert failed.body.startswith(b"the index ")
    be_well(index)
    async with gate(tmp_path, **settings(index, scheme, tmp_path)) as inside:
        assert (await inside.get(PLACE)).status == 200


@pytest.mark.parametrize(("fault", "scheme"), WAYS, indirect=["scheme"])
async def test_a_file_that_fails_is_unfinished_or_said_and_never_kept(
    fault: str, scheme: str, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_well(index)
    with monkeypatch.context() as patched:
        be_impatient(patched, fault)
        async with gate(tmp_path, **settings(index, scheme, tmp_path)) as inside:
            url = await _url_of_file(inside)
            fail(index, "/sample-1.0.zip", fault)
            if fault in STATUS or fault == "x_mute":
                assert (await inside.get(url)).status == 502
            else:
                with pytest.raises(UNFINISHED):
                    await inside.get(url)
    be_well(index)
    async with gate(tmp_path, **settings(index, scheme, tmp_path)) as inside:
        got = await inside.get(await _url_of_file(inside))
    assert (got.status, got.body) == (200, FILE)


async def _url_of_file(inside: Inside) -> str:
    page = await inside.get(PLACE, accept=JSON_TYPE)
    url: str = page.json["files"][0]["url"]
    return url


@pytest.mark.parametrize("scheme", ["http", "https"], indirect=True)
async def test_a_kept_page_stands_in_for_an_index_that_is_away(scheme: str, tmp_path: Path) -> None:
    own: dict[str, str] = {}
    pair = {}
    if scheme == "https":
        served_as("localhost", tmp_path)
        pair = {"key": tmp_path / "key.pem", "certificate": tmp_path / "certificate.pem"}
    with indexing(**pair) as made:
        be_well(made)
        own = settings(made, scheme, tmp_path)
        async with gate(tmp_path, **own) as inside:
            before = await inside.get(PLACE)
    async with gate(tmp_path, **own) as inside:  # no server listens there any more
        after = await inside.get(PLACE)
        other = await inside.get("/pypi/simple/other/")
    assert (before.status, after.status) == (200, 200)
    assert b"sample-1.0.zip</a>" in after.body
    assert (other.status, other.body) == (502, b"the index could not be reached a moment ago\n")


async def test_an_index_with_another_certificate_is_none(tmp_path: Path) -> None:
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
        await asyncio.to_thread(served_as, "localhost", tmp_path / name)
    pair = {"key": tmp_path / "own/key.pem", "certificate": tmp_path / "own/certificate.pem"}
    with indexing(**pair) as made:
        be_well(made)
        async with gate(tmp_path, **settings(made, "https", tmp_path / "other")) as inside:
            refused = await inside.get(PLACE)
        async with gate(tmp_path, **settings(made, "https", tmp_path / "own")) as inside:
            taken = await inside.get(PLACE)
    assert (refused.status, taken.status) == (502, 200)
    assert made.paths == ["/simple/sample/"]  # the first heard nothing of what was asked
