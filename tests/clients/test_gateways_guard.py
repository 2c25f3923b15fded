"""What a gateway refuses, and how the settings behind it are read."""

import asyncio
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from clients.indexes import Index, gate, indexing, raw
from patchyard.clients.downloads import Downloads
from patchyard.clients.gateway_server import CONNECTIONS, FREE, HEAD_BYTES, Exchange, serving
from patchyard.clients.index_settings import parse_npmrc, parse_pip_settings
from patchyard.clients.npm import read_document
from patchyard.clients.pypi import JSON_TYPE, belongs
from patchyard.clients.upstream import separated

pytestmark = pytest.mark.anyio


@pytest.fixture
def index() -> Iterator[Index]:
    with indexing() as made:
        yield made


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"CONNECT example.invalid:443 HTTP/1.1\r\n\r\n", 405),
        (b"POST /npm/-/npm/v1/security/audits HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 405),
        (b"PUT /npm/sample HTTP/1.1\r\n\r\n", 405),
        (b"GET http://example.invalid/ HTTP/1.1\r\nHost: example.invalid\r\n\r\n", 400),
        (b"GET //example.invalid/simple HTTP/1.1\r\n\r\n", 400),
        (b"GET /pypi/../../etc/passwd HTTP/1.1\r\n\r\n", 400),
        (b"GET /pypi/simple/%2e%2e/ HTTP/1.1\r\n\r\n", 400),
        (b"GET /pypi/simple/..%2f..%2fetc/ HTTP/1.1\r\n\r\n", 400),
        (b"GET /npm/@a%2f..%2f..%2fb HTTP/1.1\r\n\r\n", 400),
        (b"GET /npm/@a%2f.. HTTP/1.1\r\n\r\n", 400),
        (b"GET /pypi/simple/a%5c..%5cb/ HTTP/1.1\r\n\r\n", 400),
        (b"GET /pypi/simple/a%00b/ HTTP/1.1\r\n\r\n", 400),
        (b"GET /pypi/simple/a%0d%0aX:y/ HTTP/1.1\r\n\r\n", 400),
        (
            b"GET /pypi/simple/a?redirect=http://b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (b"GET /pypi/simple/a/ HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"GET /pypi/simple/a/ HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET /pypi/simple/a/ HTTP/2\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"GET /" + b"a" * (HEAD_BYTES + 1) + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 404),
        (b"GET /other/simple/a/ HTTP/1.1\r\nConnection: close\r\n\r\n", 404),
        (b"GET /pypi/simple/%C3%A4/ HTTP/1.1\r\nConnection: close\r\n\r\n", 404),
    ],
)
async def test_nothing_but_plain_paths_of_the_indexes_passes(
    index: Index, tmp_path: Path, request_: bytes, status: int
) -> None:
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        said = await raw(inside.port, request_)
    assert said.startswith(f"HTTP/1.1 {status} ".encode())
    assert index.seen == []


async def test_one_connection_carries_many_requests(index: Index, tmp_path: Path) -> None:
    asked = b"GET /other HTTP/1.1\r\n\r\n"
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        said = await raw(inside.port, asked * 2 + b"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert said.count(b"HTTP/1.1 404 ") == 3


async def test_a_defect_of_ours_ends_one_connection_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:

    async def answering(exchange: Exchange) -> None:
        if exchange.asked.path == "/bad":
            raise ZeroDivisionError
        await exchange.reply(HTTPStatus.OK, b"good")

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with serving(listener, answering, guard=FREE):
        said = [
            await raw(port, f"GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
            for path in ("/bad", "/good")
        ]
    assert (said[0], said[1].endswith(b"good")) == (b"", True)
    (told,) = caplog.records
    assert told.getMessage().startswith("a connection to a gateway: ZeroDivisionError")


async def test_a_connection_that_cannot_be_taken_up_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answering(exchange: Exchange) -> None:
        await exchange.reply(HTTPStatus.OK, b"good")

    real, troubles = asyncio.open_connection, [OSError(107, "not connected"), ValueError("a bug")]

    async def opened(*args: Any, **options: Any) -> Any:
        if "sock" in options and troubles:
            raise troubles.pop()
        return await real(*args, **options)

    monkeypatch.setattr(asyncio, "open_connection", opened)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with serving(listener, answering, guard=FREE), asyncio.timeout(60):
        asked = b"GET /good HTTP/1.1\r\nConnection: close\r\n\r\n"
        said = [await raw(port, asked) for _ in range(3)]
    assert [each.endswith(b"good") for each in said] == [False, False, True]


async def test_those_who_say_nothing_keep_nobody_from_leaving(index: Index, tmp_path: Path) -> None:

    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        silent = [await asyncio.open_connection("127.0.0.1", inside.port) for _ in range(5)]
        said = await raw(inside.port, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 404 ")
    assert len(silent) < CONNECTIONS
    for _, writer in silent:
        writer.close()


class SetupBrokenError(Exception):
    pass


async def _break_within(home: Path, ports: list[int]) -> None:
    async with gate(home) as inside:
        ports.append(inside.port)
        await raw(inside.port, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        raise SetupBrokenError


async def test_an_error_of_those_who_use_it_passes_through_as_it_is(tmp_path: Path) -> None:
    ports: list[int] = []
    with pytest.raises(SetupBrokenError):
        await _break_within(tmp_path, ports)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", ports[0])


async def test_a_client_that_leaves_in_the_middle_harms_nobody(
    index: Index, tmp_path: Path
) -> None:
    big = b"x" * (32 * 1024 * 1024)
    index.say("/simple/sample/", b'<a href="/sample-1.0.zip">x</a>', content_type="text/html")
    index.say("/sample-1.0.zip", big)
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        path = page.json["files"][0]["url"].removeprefix(f"http://127.0.0.1:{inside.port}")
        reader, writer = await asyncio.open_connection("127.0.0.1", inside.port)
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        await reader.readexactly(1000)
        writer.transport.abort()
        again = await inside.get(path)
    assert again.body == big
    assert not list((tmp_path / "patchyard" / "downloads" / "incoming").iterdir())


def test_the_strongest_of_pips_sections_counts() -> None:
    text = """WARNING: no setting
    :env:.extra-index-url='http://e/ http://f/'
    global.cert='/a.pem'
    global.extra-index-url='http://g/'
    install.cert='/b.pem'
    wheel.cert='/c.pem'
    """
    expected = {"extra-index-url": "http://e/ http://f/", "cert": "/b.pem"}
    assert parse_pip_settings(text) == expected


def test_npmrc_names_variables_and_leaves_unknown_ones() -> None:
    text = '; a comment\n# another\n//h/:_authToken = ${A}${B}\n@s:registry="http://s/"\nlonely\n'
    assert parse_npmrc(text, {"A": "1"}) == {
        "//h/:_authToken": "1${B}",
        "@s:registry": "http://s/",
    }


def test_an_address_is_parted_from_its_credentials(tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine n.invalid login me password known\n")
    urls, credentials = separated(
        ["https://u:p@a.invalid/x/", "https://n.invalid/", str(tmp_path), "https://r.invalid/"],
        authority={"r.invalid/": "Bearer far", "r.invalid/near/": "Bearer near"},
        netrc_file=tmp_path / "netrc",
    )
    assert urls == [
        "https://a.invalid/x/",
        "https://n.invalid/",
        str(tmp_path),
        "https://r.invalid/",
    ]
    header = credentials.header
    assert header("https://a.invalid/files/f") == "Basic dTpw"
    assert header("https://n.invalid/f") == "Basic bWU6a25vd24="
    assert header("https://r.invalid/near/f") == "Bearer near"
    assert header("https://r.invalid/f") == "Bearer far"
    assert header("http://a.invalid/x/") is None
    assert header("https://a.invalid:444/x/") is None
    assert header("https://a.invalid.evil.invalid/") is None
    assert "dTpw" not in repr(credentials)


def test_a_package_of_npm_is_known_by_every_hash_it_states() -> None:
    dist = {"tarball": "http://h/a-1.tgz", "integrity": "sha512-AAE= sha1-!!", "shasum": "0f"}
    document = json.dumps({"versions": {"1": {"dist": dist}}}).encode()
    _, found = read_document(document)
    assert found["a-1.tgz"].hashes == {"sha512": "0001", "sha1": "0f"}


@pytest.mark.parametrize(
    ("filename", "project", "expected"),
    [
        ("Sample_Thing-1.0-py3-none-any.whl", "sample-thing", True),
        ("sample-thing-1.0.tar.gz", "sample-thing", True),
        ("sample-thing-1.0.tar.gz", "sample", False),
        ("sample-2to3-1.0.zip", "sample-2to3", True),
        ("sample-1.0.exe", "sample", False),
    ],
)
def test_a_file_of_a_flat_folder_belongs_to_one_project(
    filename: str, project: str, *, expected: bool
) -> None:
    assert belongs(filename, project) is expected


def test_the_longest_unused_downloads_go_first(tmp_path: Path) -> None:

    downloads = Downloads(tmp_path)
    hashes = []
    for number in range(3):
        data = bytes([number]) * 100
        hashes.append({"sha256": hashlib.sha256(data).hexdigest()})
        with downloads.receive(hashes[-1]) as receiving:
            receiving.write(data)
            receiving.finish()
        found = downloads.find(hashes[-1])
        assert found is not None
        os.utime(found, (number, number))
    assert downloads.prune(limit_bytes=200) == 100
    assert [downloads.find(one) is not None for one in hashes] == [False, True, True]
