"""How a gateway deals with indexes that are away, wander, or must be known by a certificate."""

import asyncio
import ipaddress
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import IncompleteRead, RemoteDisconnected
from pathlib import Path
from typing import Any

import httpx2
import pytest

from clients.indexes import Answer, Index, gate, indexing
from patchyard.clients import index_settings, pypi, sources, upstream
from patchyard.clients.index_settings import read_npm_settings, read_pip_settings
from patchyard.clients.pypi import JSON_TYPE
from patchyard.clients.upstream import Certificates, Credentials, Upstream, UpstreamFailed, origin
from patchyard.domain.addresses import Address, Nearness, nearness
from patchyard.domain.errors import Unavailable

pytestmark = pytest.mark.anyio

PAGE = b'<a href="/sample-1.0.zip">x</a>'


@pytest.fixture
def index() -> Iterator[Index]:
    with indexing() as made:
        yield made


@pytest.mark.parametrize("status", [503, 429, 408])
async def test_a_kept_page_stands_in_while_the_index_is_ill(
    index: Index, tmp_path: Path, status: int
) -> None:
    index.say("/simple/sample/", PAGE, content_type="text/html")
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        before = await inside.get("/pypi/simple/sample/")
        index.answers["/simple/sample/"] = Answer(status=status)
        index.answers["/simple/other/"] = Answer(status=status)
        after = await inside.get("/pypi/simple/sample/")
        other = await inside.get("/pypi/simple/other/")
    assert before.body == after.body
    assert (other.status, other.body) == (502, f"the index answered {status}\n".encode())


async def test_a_file_that_the_index_lost_is_not_found_and_an_ill_index_is_said(
    index: Index, tmp_path: Path
) -> None:
    links = b'<a href="/a-1.0.zip">a</a><a href="/b-1.0.zip">b</a>'
    index.say("/simple/a/", links, content_type="text/html")
    index.answers["/b-1.0.zip"] = Answer(status=500)
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/a/", accept=JSON_TYPE)
        answers = [await inside.get(entry["url"]) for entry in page.json["files"]]
    assert [answer.status for answer in answers] == [404, 502]


async def test_a_file_of_unknown_length_passes_whole(index: Index, tmp_path: Path) -> None:
    index.say("/simple/sample/", PAGE, content_type="text/html")
    index.answers["/sample-1.0.zip"] = Answer(body=b"y" * 700_000, is_chunked=True)
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        link = page.json["files"][0]["url"]
        head = await inside.get(link, method="HEAD")
        file = await inside.get(link)
    assert file.body == b"y" * 700_000
    assert (head.status, head.body) == (200, b"")
    assert file.headers["transfer-encoding"] == "chunked"


async def test_a_file_larger_than_what_passes_is_left(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "FILE_BYTES", 1000)
    links = b'<a href="/a-1.0.zip">a</a><a href="/a-2.0.zip">b</a>'
    index.say("/simple/a/", links, content_type="text/html")
    index.say("/a-1.0.zip", b"y" * 1001)
    index.answers["/a-2.0.zip"] = Answer(body=b"y" * 1001, is_chunked=True)
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/a/", accept=JSON_TYPE)
        said, unsaid = (entry["url"] for entry in page.json["files"])
        assert (await inside.get(said)).status == 502
        with pytest.raises(IncompleteRead):
            await inside.get(unsaid)


async def test_an_index_that_ends_in_the_middle_leaves_the_file_unfinished(
    index: Index, tmp_path: Path
) -> None:
    index.say("/simple/sample/", PAGE, content_type="text/html")
    index.say("/sample-1.0.zip", b"short", x_cut="1")
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        with pytest.raises((IncompleteRead, RemoteDisconnected)):
            await inside.get(page.json["files"][0]["url"])


async def test_an_index_that_redirects_for_ever_is_left(index: Index, tmp_path: Path) -> None:
    index.answers["/simple/sample/"] = Answer(status=302, headers={"location": "/simple/sample/"})
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        answer = await inside.get("/pypi/simple/sample/")
    assert answer.status == 502
    assert b"redirected" in answer.body
    assert len(index.seen) == upstream.REDIRECTS + 1


@pytest.mark.parametrize("place", ["http://[::1/x", "http://h:99999/x", "gopher://h/x"])
async def test_an_address_that_is_none_is_said_or_left_out(
    index: Index, tmp_path: Path, place: str
) -> None:
    rows = f'<a href="{place}.zip">bad</a><a href="/sample-1.0.zip">good</a>'
    index.say("/simple/sample/", rows.encode(), content_type="text/html")
    index.answers["/sample-1.0.zip"] = Answer(status=302, headers={"location": place})
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        found = {entry["filename"]: entry["url"] for entry in page.json["files"]}
        answer = await inside.get(found["sample-1.0.zip"])
    assert answer.status == 502
    assert b"no web address" in answer.body


async def test_an_error_nobody_thought_of_ends_one_connection_and_is_logged(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.say("/simple/sample/", PAGE, content_type="text/html")

    def broken(*_: object, **__: object) -> None:
        raise LookupError("nobody thought of it")

    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        with monkeypatch.context() as patched:
            patched.setattr(pypi, "read_page", broken)
            with pytest.raises(RemoteDisconnected):
                await inside.get("/pypi/simple/sample/")
        again = await inside.get("/pypi/simple/sample/")
    assert again.status == 200
    assert inside.gateways.log[0].failure == "LookupError: nobody thought of it"


async def test_an_endless_page_is_left(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "PAGE_BYTES", 1000)
    index.say("/simple/sample/", b"x" * 2000, content_type="text/html")
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        answer = await inside.get("/pypi/simple/sample/")
    assert answer.status == 502
    assert b"larger" in answer.body


async def test_find_links_may_be_a_page_of_the_web_or_a_file(index: Index, tmp_path: Path) -> None:
    index.say("/flat.html", b'<a href="x/sample-1.0.zip">x</a>', content_type="text/html")
    (tmp_path / "flat.html").write_text('<base href="deep/"><a href="sample-2.0.zip">y</a>')
    async with gate(
        tmp_path,
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=f"{index.url}/flat.html {tmp_path}/flat.html {tmp_path}/nowhere",
    ) as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        gone = await inside.get(page.json["files"][1]["url"])
    names = [entry["filename"] for entry in page.json["files"]]
    assert names == ["sample-1.0.zip", "sample-2.0.zip"]
    assert gone.status == 404


@pytest.mark.parametrize(
    ("own", "linked", "passes"),
    [
        ("10.0.0.1", "10.0.0.2", True),
        ("8.8.8.8", "10.0.0.2", False),
        ("10.0.0.1", "169.254.169.254", False),
        ("10.0.0.1", "127.0.0.1", False),
        ("10.0.0.1", "::1", False),
        ("10.0.0.1", "100.100.100.200", False),
        ("10.0.0.1", "fd00:ec2::254", False),
        ("10.0.0.1", "64:ff9b::a9fe:a9fe", False),
        ("10.0.0.1", "0.1.2.3", False),
        ("8.8.8.8", "9.9.9.9", True),
    ],
)
async def test_links_into_a_private_network_count_where_a_configured_index_lies_there(
    monkeypatch: pytest.MonkeyPatch, own: str, linked: str, *, passes: bool
) -> None:
    known = {"own.invalid": own, "linked.invalid": linked}

    async def addresses(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
        return [ipaddress.ip_address(known[host])]

    monkeypatch.setattr(upstream, "_addresses", addresses)
    credentials = Credentials(origins=frozenset({origin("https://own.invalid/simple")}))
    client = Upstream(credentials, Certificates())
    try:
        url = "https://linked.invalid/f"
        if passes:
            await client._permit(url, origin(url))
        else:
            with pytest.raises(UpstreamFailed, match="an index links"):
                await client._permit(url, origin(url))
    finally:
        await client.close()


async def test_the_address_that_was_checked_is_asked_whatever_the_name_means_by_then(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that means another address the next time gets nobody past the check."""
    files = f"http://files.test:{index.port}"
    index.say("/simple/sample/", f'<a href="{files}/own/sample-1.0.zip">x</a>'.encode())
    index.say("/own/sample-1.0.zip", b"the file")
    away = {"location": f"{files}/pages/other/"}
    index.answers["/simple/other/"] = Answer(status=302, headers=away)
    index.say("/pages/other/", b'<a href="other-1.0.zip">x</a>')
    index.say("/pages/other/other-1.0.zip", b"the other")
    means = iter(("127.0.0.1", "127.0.0.2", "127.0.0.1", "127.0.0.1"))
    real = socket.getaddrinfo

    def changing(host: str, *arguments: Any, **named: Any) -> Any:
        return real(next(means) if host == "files.test" else host, *arguments, **named)

    def as_public(address: Address) -> Nearness:
        return Nearness.PUBLIC if str(address) == "127.0.0.1" else nearness(address)

    monkeypatch.setattr(socket, "getaddrinfo", changing)
    monkeypatch.setattr(upstream, "nearness_here", as_public)
    monkeypatch.setenv("no_proxy", "*")
    async with gate(tmp_path, PIP_INDEX_URL=f"{index.url}/simple") as inside:
        page = await inside.get("/pypi/simple/sample/", accept=JSON_TYPE)
        link = page.json["files"][0]["url"]
        got = [await inside.get(link), await inside.get(link)]
        page = await inside.get("/pypi/simple/other/", accept=JSON_TYPE)
        got.append(await inside.get(page.json["files"][0]["url"]))
    assert [each.status for each in got] == [200, 502, 200]  # by then it meant a neighbour
    assert (got[0].body, got[2].body) == (b"the file", b"the other")
    hosts = {path: headers["host"] for path, headers in index.seen}
    assert hosts["/own/sample-1.0.zip"] == hosts["/pages/other/"] == f"files.test:{index.port}"


async def test_of_several_addresses_the_first_that_answers_is_asked(index: Index) -> None:
    index.say("/f", b"the file")
    request = httpx2.Request("GET", f"http://files.test:{index.port}/f")
    nobody, here = (ipaddress.ip_address(text) for text in ("127.0.0.2", "127.0.0.1"))
    async with httpx2.AsyncClient(trust_env=False) as client:
        response = await upstream._asked_there(client, request, [nobody, here])
        assert (await response.aread(), str(response.url)) == (b"the file", str(request.url))
        with pytest.raises(httpx2.ConnectError):
            await upstream._asked_there(client, request, [nobody])


async def test_a_name_that_nobody_knows_is_left_to_a_proxy_or_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Upstream(Credentials(), Certificates())
    url = "http://nowhere.invalid/f"
    try:
        with pytest.raises(UpstreamFailed, match="cannot be reached"):
            await client._permit(url, origin(url))
        monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
        assert await client._permit(url, origin(url)) == ()
    finally:
        await client.close()


async def test_a_public_name_that_nobody_knows_is_away(tmp_path: Path) -> None:
    async with gate(tmp_path, PIP_INDEX_URL="http://nowhere.invalid/simple") as inside:
        answer = await inside.get("/pypi/simple/sample/")
    assert answer.status == 502
    assert b"nowhere" not in answer.body


async def test_pip_says_itself_which_index_it_takes_when_nothing_is_configured(
    tmp_path: Path,
) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    settings = await read_pip_settings(environ)
    assert settings.indexes[0].startswith("https://")
    assert settings.indexes[0].endswith("/simple")


async def test_a_pip_that_answers_badly_gives_way_to_ours_and_a_bad_npm_is_said(
    tmp_path: Path,
) -> None:
    for name in ("pip", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    settings = await read_pip_settings({**environ, "PIP_INDEX_URL": "http://127.0.0.1:9/"})
    assert settings.indexes[0] == "http://127.0.0.1:9/"
    with pytest.raises(Unavailable, match="npm ended with 3"):
        await read_npm_settings(environ)


async def test_a_program_that_never_answers_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_settings, "ASK_TIMEOUT_S", 0.05)
    (tmp_path / "npm").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "npm").chmod(0o755)
    with pytest.raises(Unavailable, match="did not answer"):
        await read_npm_settings({"PATH": f"{tmp_path}:/usr/bin:/bin"})


async def test_without_any_pip_the_cure_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(Unavailable, match="no pip") as caught:
        await read_pip_settings({"PATH": str(tmp_path)})
    assert "install pip" in caught.value.hint


def _certificate(folder: Path) -> tuple[Path, Path]:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "1"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return key, certificate


@pytest.mark.parametrize("ending", ["x_cut", "x_damaged"])
async def test_a_page_that_ends_in_the_middle_by_tls_is_said(tmp_path: Path, ending: str) -> None:
    key, certificate = await asyncio.to_thread(_certificate, tmp_path)
    with indexing(key=key, certificate=certificate) as index:
        index.say("/simple/sample/", PAGE, content_type="text/html", **{ending: "1"})
        settings = {"PIP_INDEX_URL": f"https://127.0.0.1:{index.port}/simple"}
        async with gate(tmp_path, **settings, PIP_CERT=str(certificate)) as inside:
            answer = await inside.get("/pypi/simple/sample/")
    assert answer.status == 502
    assert b"answered badly" in answer.body


async def test_pips_own_certificates_and_trusted_hosts_count(tmp_path: Path) -> None:
    key, certificate = await asyncio.to_thread(_certificate, tmp_path)
    with indexing(key=key, certificate=certificate) as index:
        index.say("/simple/sample/", PAGE, content_type="text/html")
        settings = {"PIP_INDEX_URL": f"https://127.0.0.1:{index.port}/simple"}
        statuses = {}
        for name, added in {
            "unknown": {},
            "known": {"PIP_CERT": str(certificate)},
            "trusted": {"PIP_TRUSTED_HOST": "127.0.0.1"},
        }.items():
            (tmp_path / name).mkdir()
            async with gate(tmp_path / name, **settings, **added) as inside:
                statuses[name] = (await inside.get("/pypi/simple/sample/")).status
    assert statuses == {"unknown": 502, "known": 200, "trusted": 200}
