"""Requests that the gateway reads: TLS and secrets are its own, a client's authority is dropped."""

import asyncio
import base64
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from clients.indexes import indexing
from network.conftest import Authority
from network.doors import Door, door
from network.hosts import Host, hosting
from patchyard.clients.dialling import resolved
from patchyard.clients.masking import Masking
from patchyard.domain.addresses import Address
from patchyard.domain.errors import UsageError
from patchyard.domain.network import NetworkGrant

pytestmark = pytest.mark.anyio

TOKEN = "t0ken-of-the-tests-0123456789"


@pytest.fixture
def other(authority: Authority) -> Iterator[Host]:
    with hosting(authority.server) as host:
        yield host


async def test_plain_http_to_the_gateway_is_tls_outside_with_the_secret(
    tmp_path: Path, secure: Host, authority: Authority
) -> None:
    secure.say("/data", b"seen")
    grant = NetworkGrant(secrets=(f"TOKEN@{secure.place}",))
    more = {"TOKEN": f" {TOKEN}\n", "SSL_CERT_FILE": str(authority.file)}
    async with door(grant, tmp_path, more=more) as inside:
        own = "Authorization: Bearer the-agents-own"
        absolute = await inside.ask(f"http://{secure.place}/data?q=1", own)
        direct = await inside.ask(f"/to/{secure.place}/data", own)
        (first, second) = inside.attempts()
        assert TOKEN not in repr(inside.variables)
        with pytest.raises(PermissionError):
            await inside.tunnel(secure.place, None)
    assert absolute.startswith(b"HTTP/1.1 404 ")
    assert direct.startswith(b"HTTP/1.1 200 ")
    assert [seen.path for seen in secure.seen] == ["/data?q=1", "/data"]
    for seen in secure.seen:
        assert seen.headers["authorization"] == f"Bearer {TOKEN}"
        assert seen.headers["host"] == secure.place
    assert (first.path, first.status, first.method) == ("/data", 404, "GET")
    assert (second.gateway, second.verdict) == ("http", "passed")
    assert second.down == len(direct)  # the head counts too


@pytest.mark.parametrize(
    ("scheme", "value", "header"),
    [
        ("", TOKEN, f"Bearer {TOKEN}"),
        ("token:", TOKEN, f"token {TOKEN}"),
        ("basic:", f"user:{TOKEN}", "Basic " + base64.b64encode(f"user:{TOKEN}".encode()).decode()),
    ],
)
async def test_a_secret_that_a_host_sends_back_is_taken_out(
    tmp_path: Path, plain: Host, scheme: str, value: str, header: str
) -> None:
    grant = NetworkGrant(secrets=(f"{scheme}TOKEN@http://{plain.place}",))
    async with door(grant, tmp_path, more={"TOKEN": value}) as inside:
        said = await inside.ask(f"http://{plain.place}/echo")
    assert plain.seen[0].headers["authorization"] == header
    assert plain.seen[0].headers["accept-encoding"] == "identity"
    assert said.startswith(b"HTTP/1.1 200 ")
    for hidden in (value, header.partition(" ")[2], TOKEN):
        assert hidden.encode() not in said
    assert b"*" * len(TOKEN) in said


async def test_a_cookie_that_a_host_gives_for_the_secret_stays_outside(
    tmp_path: Path, plain: Host
) -> None:
    plain.say("/x", b"fine", set_cookie="session=1", x_kept="1")
    place = f"http://{plain.place}"
    for grant, is_there in (
        (NetworkGrant(secrets=(f"TOKEN@{place}",)), False),
        (NetworkGrant(hosts=(place,)), True),
    ):
        async with door(grant, tmp_path, more={"TOKEN": TOKEN}) as inside:
            said = await inside.ask(f"{place}/x")
        assert (b"set-cookie" in said, b"x-kept" in said) == (is_there, True)


async def test_certificates_that_cannot_be_read_are_wrong_usage(tmp_path: Path) -> None:
    more = {"SSL_CERT_FILE": str(tmp_path / "none.pem")}
    with pytest.raises(UsageError, match="SSL_CERT_FILE"):
        async with door(NetworkGrant(hosts=("a.example",)), tmp_path, more=more):
            pass


def test_a_secret_cut_into_pieces_is_taken_out_too() -> None:
    masking = Masking([TOKEN, "x"])
    text = f"a{TOKEN}b{TOKEN}{TOKEN[:9]}".encode()
    parts = [masking.feed(text[at : at + 5]) for at in range(0, len(text), 5)]
    whole = b"".join([*parts, masking.rest()])
    assert whole == text.replace(TOKEN.encode(), b"*" * len(TOKEN))
    assert Masking(()).feed(b"x") + Masking(()).rest() == b"x"


async def test_no_other_host_gets_the_secret_and_redirects_are_handed_back(
    tmp_path: Path, plain: Host, other: Host, authority: Authority
) -> None:
    plain.say("/away", status=302, location=f"https://{other.place}/x")
    plain.say("/home", status=301, location=f"http://{plain.place}/there?a#b")
    plain.say("/path", status=307, location="/there")
    grant = NetworkGrant(hosts=(other.place,), secrets=(f"TOKEN@http://{plain.place}",))
    more = {"TOKEN": TOKEN, "SSL_CERT_FILE": str(authority.file)}
    async with door(grant, tmp_path, more=more) as inside:
        away = await inside.ask(f"http://{plain.place}/away")
        home = await inside.ask(f"/to/{plain.place}/home")
        path = await inside.ask(f"/to/{plain.place}/path")
        same = await inside.ask(f"http://{plain.place}/path")
        await inside.ask(f"http://{other.place}/x", f"Authorization: Bearer {TOKEN}")
    assert f"location: https://{other.place}/x".encode() in away
    assert f"location: /to/{plain.place}/there?a#b".encode() in home
    assert f"location: /to/{plain.place}/there\r".encode() in path
    assert b"location: /there\r" in same
    (seen,) = other.seen
    assert "authorization" not in seen.headers
    assert len(plain.seen) == 4


async def test_what_names_another_method_path_or_host_is_not_passed_on(
    tmp_path: Path, plain: Host
) -> None:
    said = (
        *("X-HTTP-Method-Override: DELETE", "X-Original-URL: /admin", "X-Forwarded-Host: evil"),
        *("X_HTTP_Method_Override: DELETE", "X_Forwarded_Host: evil", "Transfer_Encoding: chunked"),
        *("Content_Length: 5", "X-Forwarded-For: 127.0.0.1", "X-Original-Host: evil"),
        *(
            "Proxy-Authorization: Basic x",
            "Connection: x-hop, keep-alive",
            "X-Hop: 1",
            "TE: trailers",
        ),
        *("X-HTTP-Method: PUT", "X-Method: PUT", "X-HTTP-Host-Override: evil", "Proxy: evil"),
        *("X-Original-URI: /admin", "X_Envoy_Original_Path: /admin", "X-Rewrite-URI: /admin"),
        *("X-Forwarded: a", "Via: 1.1 evil", "X-Real-IP: 127.0.0.1", "X-Remote-User: admin"),
        *("CF-Connecting-IP: 127.0.0.1", "True-Client-IP: 127.0.0.1", "Override-URL: /admin"),
        *("Connection: x_other", "X-Other: 1", "Trailer: x", "Request-URI: /admin"),
        *("Upgrade: websocket", "X-Kept: yes", "Cookie: a=b"),
    )
    async with door(NetworkGrant(hosts=(f"http://{plain.place}",)), tmp_path) as inside:
        await inside.ask(f"http://{plain.place}/x", *said)
    headers = dict(plain.seen[0].headers)
    assert headers.pop("connection", "close") in {"close", "keep-alive"}
    assert headers == {"host": plain.place, "x-kept": "yes", "cookie": "a=b"}


async def test_a_path_goes_out_as_it_came(tmp_path: Path, plain: Host) -> None:
    async with door(NetworkGrant(hosts=(f"http://{plain.place}",)), tmp_path) as inside:
        for path in ("/a%2Fb/../c?x=%zz&y=[1]|{2}", "/%7e//x"):
            await inside.ask(f"http://{plain.place}{path}")
        await inside.ask(f"http://{plain.place}?only=query")
        await inside.ask(f"/to/{plain.place}?q")
    assert [seen.path for seen in plain.seen] == [
        "/a%2Fb/../c?x=%zz&y=[1]|{2}",
        "/%7e//x",
        "/?only=query",
        "/?q",
    ]


async def chunked(inside: Door, place: str, body: bytes) -> bytes:
    head = (
        f"POST http://{place}/echo HTTP/1.1\r\nHost: {place}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    return await inside.raw(head.encode() + body)


async def test_bodies_are_carried_and_counted(tmp_path: Path, plain: Host) -> None:
    async with door(NetworkGrant(hosts=(f"http://{plain.place}",)), tmp_path) as inside:
        await inside.ask(f"http://{plain.place}/echo", method="POST", body=b"x" * 200_000)
        await chunked(inside, plain.place, b"5;a=b\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
        waits = await inside.ask(
            f"http://{plain.place}/echo", "Expect: 100-continue", method="PUT", body=b"z"
        )
        await inside.ask(f"http://{plain.place}/echo", method="DELETE")
        attempts = inside.attempts()
    assert [seen.body for seen in plain.seen] == [b"x" * 200_000, b"hello world", b"z", b""]
    heads = [attempt.up - body for attempt, body in zip(attempts, (200_000, 11, 1, 0), strict=True)]
    assert all(50 < head < 200 for head in heads)
    assert waits.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ")


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhelloX\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n" + b"\r\n",
        b"0\r\nTrailer: x\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
    ],
)
async def test_a_body_in_odd_chunks_does_not_pass(tmp_path: Path, plain: Host, body: bytes) -> None:
    async with door(NetworkGrant(hosts=(f"http://{plain.place}",)), tmp_path) as inside:
        said = await chunked(inside, plain.place, body)
        (attempt,) = inside.attempts()
    assert b" 200 " not in said
    assert attempt.verdict == "refused"


async def test_a_body_that_breaks_off_is_told_as_a_failure(tmp_path: Path, plain: Host) -> None:
    async with door(NetworkGrant(hosts=(f"http://{plain.place}",)), tmp_path) as inside:
        request = f"POST http://{plain.place}/echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"
        assert await _cut(inside, request.encode()) == b""
        (attempt,) = await inside.told(1)
    assert attempt.verdict == "failed"


async def _cut(inside: Door, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", inside.port)
    writer.write(request)
    writer.write_eof()
    async with asyncio.timeout(120):
        said = await reader.read()
    writer.close()
    return said


async def test_answers_keep_their_shape(tmp_path: Path, plain: Host) -> None:
    plain.say("/long", b"whole", strict_transport_security="max-age=1", x_kept="1")
    plain.say("/open", b"until the end", x_unbounded="1")
    plain.say("/none", status=304)
    place = f"http://{plain.place}"
    async with door(NetworkGrant(hosts=(place,)), tmp_path) as inside:
        whole = await inside.ask(f"{place}/long")
        head = await inside.ask(f"{place}/long", method="HEAD")
        chunks = await inside.ask(f"{place}/open")
        old = await inside.raw(f"GET {place}/open HTTP/1.0\r\n\r\n".encode())
        none = await inside.ask(f"{place}/none")
    assert b"content-length: 5\r\n" in whole.lower()
    assert b"strict-transport" not in whole.lower()
    assert whole.endswith(b"\r\n\r\nwhole")
    assert head.endswith(b"connection: close\r\n\r\n")
    assert b"content-length: 5\r\n" in head.lower()
    assert chunks.endswith(b"\r\nd\r\nuntil the end\r\n0\r\n\r\n")
    assert old.endswith(b"\r\n\r\nuntil the end")
    assert none.endswith(b"\r\n\r\n")


async def test_a_host_that_is_not_who_it_should_be_gets_nothing(
    tmp_path: Path, secure: Host, plain: Host
) -> None:
    grant = NetworkGrant(secrets=(f"TOKEN@{secure.place}", f"TOKEN@{plain.place}"))
    async with door(grant, tmp_path, more={"TOKEN": TOKEN}) as inside:
        unknown = await inside.ask(f"http://{secure.place}/x")
        none = await inside.ask(f"http://{plain.place}/x")
        attempts = inside.attempts()
    assert b"502 " in unknown
    assert b"no secure connection: self-signed certificate" in unknown
    assert b"502 " in none
    assert [attempt.verdict for attempt in attempts] == ["failed", "failed"]
    assert secure.seen == []
    assert plain.seen == []


@pytest.mark.parametrize("value", ["", " ", "two\nlines", "schlüssel"])
async def test_a_secret_that_is_not_there_or_no_header_is_refused(
    tmp_path: Path, value: str
) -> None:
    with pytest.raises(UsageError, match="TOKEN"):
        async with door(
            NetworkGrant(secrets=("TOKEN@a.example",)), tmp_path, more={"TOKEN": value}
        ):
            pass


async def test_a_narrow_rule_lets_its_methods_and_paths_pass_alone(
    tmp_path: Path, plain: Host
) -> None:
    plain.say("/v1/x", b"fine")
    grant = NetworkGrant(hosts=(f"http://{plain.place}/v1/",))
    async with door(grant, tmp_path) as inside:
        assert (await inside.ask(f"http://{plain.place}/v1/x")).endswith(b"fine")
        for method, path in (("POST", "/v1/x"), ("GET", "/v2"), ("GET", "/v1/../v2")):
            said = await inside.ask(f"http://{plain.place}{path}", method=method)
            assert said.startswith(b"HTTP/1.1 403 ")
        with pytest.raises(PermissionError):
            await inside.tunnel(plain.place, None)
    assert len(plain.seen) == 1


async def test_the_variables_lead_to_the_gateway_and_not_the_agents_own_servers(
    tmp_path: Path,
) -> None:
    async with door(NetworkGrant(hosts=("a.example",)), tmp_path) as inside:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "PATCHYARD_GATEWAY"):
            assert inside.variables[name] == inside.root
        assert inside.variables["NO_PROXY"] == "localhost,127.0.0.1,::1"
        assert "PIP_INDEX_URL" not in inside.variables
    async with door(NetworkGrant(gateways=("index",)), tmp_path) as inside:
        assert inside.variables["PIP_INDEX_URL"] == f"{inside.root}/pypi/simple/"
        assert "https_proxy" not in inside.variables
    async with door(NetworkGrant(hosts=("localhost:3000",)), tmp_path) as inside:
        assert inside.variables["no_proxy"] == "127.0.0.1,::1"


async def test_a_mistake_of_ours_ends_one_connection_and_is_told(
    tmp_path: Path, plain: Host
) -> None:
    async def broken(_host: str) -> Sequence[Address]:
        raise LookupError

    place = f"http://127.0.0.1:{plain.port}"
    grant = NetworkGrant(hosts=("http://a.example", place))
    async with door(grant, tmp_path, resolve=broken) as inside:
        assert await inside.ask("http://a.example/") == b""
        assert (await inside.ask(f"{place}/x")).startswith(b"HTTP/1.1 404 ")
        first, _ = inside.attempts()
    assert (first.verdict, first.reason) == ("failed", "LookupError")


async def test_what_is_no_name_is_nobodys() -> None:
    assert await resolved(f"{'a' * 64}.example") == ()
    assert [str(each) for each in await resolved("127.0.0.1")] == ["127.0.0.1"]


async def test_one_connection_carries_many_requests_to_the_indexes(tmp_path: Path) -> None:
    with indexing() as index:
        index.say("/simple/sample/", b'<a href="/sample-1.0.zip">x</a>', content_type="text/html")
        more = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"{index.url}/simple"}
        more["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        async with door(NetworkGrant(gateways=("index",)), tmp_path, more=more) as inside:
            asked = b"GET /pypi/simple/sample/ HTTP/1.1\r\nAccept: text/html\r\n"
            said = await inside.raw(asked + b"\r\n" + asked + b"Connection: close\r\n\r\n")
            refused = await inside.ask("/pypi/simple/%2e%2e/")
            attempts = inside.attempts()
    assert said.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert refused.startswith(b"HTTP/1.1 400 ")
    assert [(each.gateway, each.verdict) for each in attempts] == [
        ("index", "passed"),
        ("index", "passed"),
        ("index", "refused"),
    ]
    assert attempts[0].down > 0
