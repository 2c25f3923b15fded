"""The gateway to the Python indexes, before real sources of pip's on loopback."""

import asyncio
import hashlib
import http.client
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.indexes import METADATA, Answer, Index, gate, indexing, raw, wheel
from patchyard.clients.pypi import JSON_TYPE
from patchyard.domain.carrying import NetworkBounds

pytestmark = pytest.mark.anyio

FILE = "sample-1.0-py3-none-any.whl"
DESCRIBED = METADATA.format("sample", "1.0").encode()


@pytest.fixture
def index() -> Iterator[Index]:
    with indexing() as made:
        yield made


def _publish(index: Index, data: bytes, *, digest: str | None = None) -> None:
    """A project page in JSON as the public index writes it, and its file."""
    entry = {
        "filename": FILE,
        "url": f"/files/{FILE}",
        "hashes": {"sha256": digest or hashlib.sha256(data).hexdigest()},
        "requires-python": ">=3.8",
        "core-metadata": {"sha256": hashlib.sha256(DESCRIBED).hexdigest()},
        "size": len(data),
    }
    page = json.dumps({"meta": {"api-version": "1.0"}, "name": "sample", "files": [entry]})
    index.say("/simple/sample/", page.encode(), content_type=JSON_TYPE, etag='"one"')
    index.say(f"/files/{FILE}", data)
    index.say(f"/files/{FILE}.metadata", DESCRIBED)


async def test_a_page_leads_to_the_gateway_alone_and_keeps_what_the_index_says(
    index: Index, tmp_path: Path
) -> None:
    _publish(index, wheel())
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/Sample/", accept=JSON_TYPE)
        (entry,) = page.json["files"]
        html = await inside.get("/pypi/simple/sample/", accept="text/html")
        metadata = await inside.get(f"{entry['url']}.metadata")
        file = await inside.get(entry["url"])
    assert page.headers["content-type"] == JSON_TYPE
    assert entry["hashes"] == {"sha256": hashlib.sha256(wheel()).hexdigest()}
    assert entry["requires-python"] == ">=3.8"
    assert f":{index.port}" not in page.body.decode() + html.body.decode()
    assert f"#sha256={hashlib.sha256(wheel()).hexdigest()}" in html.body.decode()
    assert 'data-requires-python="&gt;=3.8"' in html.body.decode()
    assert 'data-core-metadata="sha256=' in html.body.decode()
    assert metadata.body == DESCRIBED
    assert file.body == wheel()


async def test_a_page_for_an_older_pip_leaves_out_the_key_it_trips_over(
    index: Index, tmp_path: Path
) -> None:
    _publish(index, wheel())
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
    assert "dist-info-metadata" not in page.json["files"][0]


async def test_all_of_pips_sources_are_one_index(index: Index, tmp_path: Path) -> None:
    _publish(index, wheel())
    extra, flat = tmp_path / "extra index", tmp_path / "flat"
    (extra / "sample").mkdir(parents=True)
    (extra / "sample" / "sample-2.0.tar.gz").write_bytes(b"two")
    yanked = '<a href="sample-2.0.tar.gz#md5=abc123" data-yanked="it broke &amp; fell">two</a>'
    (extra / "sample" / "index.html").write_text(f"<html><body>{yanked}</body></html>")
    flat.mkdir()
    (flat / "sample-3.0.zip").write_bytes(b"three")
    (flat / "sample_more-3.0.zip").write_bytes(b"another project")
    async with gate(
        tmp_path,
        PIP_INDEX_URL=f"{index.url}/simple/",
        PIP_EXTRA_INDEX_URL=extra.as_uri(),
        PIP_FIND_LINKS=str(flat),
    ) as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        html = await inside.get("/pypi/simple/sample/")
        found = {entry["filename"]: entry for entry in page.json["files"]}
        bodies = {name: (await inside.get(found[name]["url"])).body for name in found}
        part = await inside.get(found["sample-3.0.zip"]["url"], range="bytes=1-2")
    assert bodies == {FILE: wheel(), "sample-2.0.tar.gz": b"two", "sample-3.0.zip": b"three"}
    assert found["sample-2.0.tar.gz"]["yanked"] == "it broke & fell"
    assert 'data-yanked="it broke &amp; fell"' in html.body.decode()
    assert (part.status, part.body, part.headers["content-range"]) == (206, b"hr", "bytes 1-2/5")
    assert str(tmp_path) not in page.body.decode()


async def test_pip_itself_installs_through_the_gateway(index: Index, tmp_path: Path) -> None:
    _publish(index, wheel())
    target = tmp_path / "installed"
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        installing = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), "sample"),
            env={**inside.variables, "PATH": os.environ["PATH"], "PIP_CACHE_DIR": str(tmp_path)},
        )
        assert await installing.wait() == 0
    assert "from the gateway" in (target / "sample.py").read_text()
    passed = [(entry.gateway, entry.name.rpartition("/")[2]) for entry in inside.gateways.log]
    assert ("pypi", "sample") in passed
    assert ("pypi", FILE) in passed
    assert sum(entry.sent for entry in inside.gateways.log) > len(wheel())


async def test_what_was_fetched_once_is_there_without_a_network(tmp_path: Path) -> None:
    with indexing() as index:
        _publish(index, wheel())
        settings = {"PIP_INDEX_URL": f"{index.url}/simple"}
        async with gate(tmp_path, **settings) as inside:
            page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
            await inside.get(page.json["files"][0]["url"])
        asked = index.paths.count(f"/files/{FILE}")
        async with gate(tmp_path, **settings) as inside:
            page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
            await inside.get(page.json["files"][0]["url"])
        assert index.paths.count(f"/files/{FILE}") == asked == 1
        assert index.seen[-1][1]["if-none-match"] == '"one"'
    async with gate(tmp_path, **settings) as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        link = page.json["files"][0]["url"]
        file = await inside.get(link)
        part = await inside.get(link, range="bytes=-4")
        outside = await inside.get(link, range="bytes=999999-")
        endless = await inside.get(link, range=f"bytes={'9' * 5000}-")
        head = await inside.get(link, method="HEAD")
        unknown = await inside.get("/pypi/simple/other/")
    assert file.body == wheel()
    assert (part.status, part.body) == (206, wheel()[-4:])
    assert outside.status == 416
    assert (endless.status, endless.body) == (200, wheel())  # no range that means anything
    assert (head.body, head.headers["content-length"]) == (b"", str(len(wheel())))
    assert unknown.status == 502
    assert unknown.body == b"the index could not be reached a moment ago\n"


async def test_a_file_that_is_not_what_the_index_states_stays_unfinished_and_is_not_kept(
    index: Index, tmp_path: Path
) -> None:
    _publish(index, wheel(), digest="0" * 64)
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        path = page.json["files"][0]["url"].removeprefix(f"http://127.0.0.1:{inside.port}")
        said = await raw(inside.port, f"GET {path} HTTP/1.1\r\n\r\n".encode())
    assert len(said.partition(b"\r\n\r\n")[2]) < len(wheel())
    assert "sha256" in inside.gateways.log[-1].failure
    assert not (tmp_path / "patchyard" / "downloads" / "sha256").exists()


async def test_a_damaged_kept_file_is_fetched_again(index: Index, tmp_path: Path) -> None:
    _publish(index, wheel())
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        link = page.json["files"][0]["url"]
        await inside.get(link)
        kept = next((tmp_path / "patchyard" / "downloads" / "sha256").glob("*/*"))
        kept.write_bytes(b"damaged")
        assert (await inside.get(link)).body == wheel()
    assert kept.read_bytes() == wheel()


async def test_credentials_go_to_their_own_index_and_never_inside(
    index: Index, tmp_path: Path
) -> None:
    _publish(index, wheel())
    with indexing() as other:
        moved = Answer(status=302, headers={"location": f"{other.url}/elsewhere"})
        index.answers[f"/files/{FILE}"] = moved
        other.say("/elsewhere", wheel())
        named = f"http://user:pass%40word@127.0.0.1:{index.port}/simple"
        async with gate(
            tmp_path, PIP_INDEX_URL=named, PIP_EXTRA_INDEX_URL=f"{other.url}/simple"
        ) as inside:
            page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
            file = await inside.get(page.json["files"][0]["url"])
        assert file.body == wheel()
        said = {dict(headers).get("authorization") for _, headers in index.seen}
        assert said == {"Basic dXNlcjpwYXNzQHdvcmQ="}
        assert not any("authorization" in headers for _, headers in other.seen)
    everything = page.body + repr((inside.gateways.log, inside.variables)).encode()
    assert b"word" not in everything
    assert b"user:" not in everything


async def test_an_index_cannot_lead_to_this_machine_or_its_neighbours(
    index: Index, tmp_path: Path
) -> None:
    with indexing() as other:
        other.say("/secret.zip", b"not for packages")
        links = [
            f"{other.url}/sample-1.0.zip",
            "http://169.254.169.254/latest/sample-2.0.zip",
            f"file://{tmp_path}/sample-3.0.zip",
        ]
        (tmp_path / "sample-3.0.zip").write_bytes(b"a file of the host")
        rows = "".join(f'<a href="{link}">x</a>' for link in links)
        index.say("/simple/sample/", f"<html>{rows}</html>".encode(), content_type="text/html")
        async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
            page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
            names = [entry["filename"] for entry in page.json["files"]]
            answers = [await inside.get(entry["url"]) for entry in page.json["files"]]
        assert names == ["sample-1.0.zip", "sample-2.0.zip"]
        assert [answer.status for answer in answers] == [502, 502]
        assert other.seen == []


async def test_a_range_of_a_file_that_is_not_kept_comes_from_the_index(
    index: Index, tmp_path: Path
) -> None:
    _publish(index, wheel())
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        part = await inside.get(page.json["files"][0]["url"], range="bytes=0-3")
        head = await inside.get(page.json["files"][0]["url"], method="HEAD")
    assert (part.status, part.body) == (206, wheel()[:4])
    assert index.seen[-2][1]["range"] == "bytes=0-3"
    assert head.headers["content-length"] == str(len(wheel()))


async def test_an_unknown_project_is_not_found(index: Index, tmp_path: Path) -> None:
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        unknown = await inside.get("/pypi/simple/sample/")
        unlisted = await inside.get(f"/pypi/files/{'0' * 32}/{FILE}")
        odd = await inside.get("/pypi/other")
    assert [unknown.status, unlisted.status, odd.status] == [404, 404, 404]


@pytest.mark.parametrize(
    ("body", "kind"), [(b"{", JSON_TYPE), (b'{"files": [3]}', JSON_TYPE), (b"[]", JSON_TYPE)]
)
async def test_a_page_that_cannot_be_read_is_a_clear_failure(
    index: Index, tmp_path: Path, body: bytes, kind: str
) -> None:
    index.say("/simple/sample/", body, content_type=kind)
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        answer = await inside.get("/pypi/simple/sample/")
    assert (answer.status, answer.body) == (502, b"no JSON of a simple index\n")


async def test_the_limits_of_an_environment_hold_at_the_indexes_too(
    index: Index, tmp_path: Path
) -> None:
    _publish(index, b"w" * 300_000)
    bounds = NetworkBounds(network_bytes=100_000, connections=1)
    async with gate(tmp_path, bounds, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        with pytest.raises(http.client.IncompleteRead) as cut:
            await inside.get(page.json["files"][0]["url"])
        again = await inside.get("/pypi/simple/sample/")
        carried = inside.counting.read()
        _, held = await asyncio.open_connection("127.0.0.1", inside.port)
        turned = await raw(inside.port, b"GET / HTTP/1.1\r\n\r\n")
        held.close()
    assert len(cut.value.partial) < 100_000
    assert (again.status, b"the limit `network` was reached" in again.body) == (403, True)
    assert carried.hit is not None
    assert (carried.hit.limit, carried.connections) == ("network", 1)
    assert turned.startswith(b"HTTP/1.1 503 ")
    assert b"the limit `connections` was reached: 1 of 1" in turned
