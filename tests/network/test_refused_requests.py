"""What a plan's gateway never lets pass: other hosts and spellings, requests with two meanings."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from network.doors import door
from network.hosts import Host
from patchyard.clients.gateway_server import HEAD_BYTES, Refused
from patchyard.clients.proxy_head import parse
from patchyard.domain.addresses import Address
from patchyard.domain.network import NetworkGrant
from timing import require_linear

pytestmark = pytest.mark.anyio

A = "a.test"
GRANT = NetworkGrant(hosts=(f"{A}:443", "127.0.0.1:9"))


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        # other hosts, ports and spellings
        ("CONNECT b.example:443 HTTP/1.1\r\n\r\n", 403),
        (f"CONNECT {A}:444 HTTP/1.1\r\n\r\n", 403),
        (f"CONNECT {A} HTTP/1.1\r\n\r\n", 400),
        (f"CONNECT sub.{A}:443 HTTP/1.1\r\n\r\n", 403),
        (f"CONNECT {A}.evil.example:443 HTTP/1.1\r\n\r\n", 403),
        (f"CONNECT user@{A}:443 HTTP/1.1\r\n\r\n", 400),
        (f"CONNECT {A}:443@b.example:443 HTTP/1.1\r\n\r\n", 400),
        ("CONNECT 2130706433:9 HTTP/1.1\r\n\r\n", 400),
        ("CONNECT 0x7f.0.0.1:9 HTTP/1.1\r\n\r\n", 400),
        ("CONNECT 0177.0.0.1:9 HTTP/1.1\r\n\r\n", 400),
        ("CONNECT 127.1:9 HTTP/1.1\r\n\r\n", 400),
        ("CONNECT 127.0.0.2:9 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT [::1]:9 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT [::]:9 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT [fe80::1%25lo]:9 HTTP/1.1\r\n\r\n", 400),
        ("CONNECT [fe80::1%lo]:9 HTTP/1.1\r\n\r\n", 400),
        ("CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT metadata.google.internal:80 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT localhost:22 HTTP/1.1\r\n\r\n", 403),
        (f"CONNECT {A}\u00e9:443 HTTP/1.1\r\n\r\n", 400),
        (f"CONNECT http://{A}:443/ HTTP/1.1\r\n\r\n", 400),
        ("GET http://b.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n", 403),
        ("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n", 403),
        ("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n", 403),
        (f"GET http://user:pw@{A}/ HTTP/1.1\r\n\r\n", 400),
        (f"GET http://{A}:443:80/ HTTP/1.1\r\n\r\n", 400),
        (f"GET http://{A}#@b.example/ HTTP/1.1\r\n\r\n", 400),
        (f"GET ftp://{A}/ HTTP/1.1\r\n\r\n", 400),
        (f"GET /to/{A}/api#/../admin HTTP/1.1\r\n\r\n", 400),
        (f"GET //{A}/ HTTP/1.1\r\n\r\n", 404),
        ("GET /to/b.example/ HTTP/1.1\r\n\r\n", 403),
        ("GET /to/ HTTP/1.1\r\n\r\n", 400),
        (f"GET /to/user@{A}/ HTTP/1.1\r\n\r\n", 400),
        # two hosts in one request
        (f"CONNECT {A}:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n", 400),
        (f"GET http://{A}/ HTTP/1.1\r\nHost: b.example\r\n\r\n", 400),
        (f"GET http://{A}/ HTTP/1.1\r\nHost: {A}:8080\r\n\r\n", 400),
        (f"GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nHost: b.example\r\n\r\n", 400),
        (f"GET /to/{A}/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400),
        (f"GET /to/{A}/ HTTP/1.1\r\nHost: {A}\r\n\r\n", 400),
        # bodies with two ends
        (f"GET http://{A} HTTP/1.1\r\nContent-Length:3\r\nTransfer-Encoding:chunked\r\n\r\n", 400),
        (f"POST http://{A}/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400),
        (f"POST http://{A}/ HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\nabc", 400),
        (f"POST http://{A}/ HTTP/1.1\r\nContent-Length: +3\r\n\r\nabc", 400),
        (f"POST http://{A}/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (f"POST http://{A}/ HTTP/1.1\r\nContent-Length: 0x3\r\n\r\nabc", 400),
        (f"POST http://{A}/ HTTP/1.1\r\nContent-Length:\r\n\r\n", 400),
        (f"POST http://{A}/ HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n", 400),
        (f"POST http://{A}/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
        (f"POST http://{A}/ HTTP/1.1\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", 400),
        (f"POST http://{A}/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (f"CONNECT {A}:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 400),
        # lines with two ends
        (f"GET http://{A}/ HTTP/1.1\r\nX: a\r\n b\r\n\r\n", 400),
        (f"GET http://{A}/ HTTP/1.1\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (f"GET http://{A}/ HTTP/1.1\r\nX: a\rY: b\r\n\r\n", 400),
        (f"GET http://{A}/ HTTP/1.1\r\nX : a\r\n\r\n", 400),
        (f"GET http://{A}/ HTTP/1.1\r\nX: a\x00b\r\n\r\n", 400),
        (f"GET http://{A}/ HTTP/1.1\nHost: {A}\r\n\r\n", 400),
        (f"GET  http://{A}/ HTTP/1.1\r\n\r\n", 400),
        (f"GET http://{A}/a b HTTP/1.1\r\n\r\n", 400),
        (f"GET http://{A}/ HTTP/1.1 \r\n\r\n", 400),
        (f"GET http://{A}/ HTTP/2\r\n\r\n", 400),
        (f"get http://{A}/ HTTP/1.1\r\n\r\n", 400),
        # other methods, other services
        (f"TRACE http://{A}/ HTTP/1.1\r\n\r\n", 405),
        (f"PROPFIND http://{A}/ HTTP/1.1\r\n\r\n", 405),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 404),
        ("GET /pypi/simple/six/ HTTP/1.1\r\n\r\n", 404),
        ("GET /git/repository.git/info/refs?service=git-upload-pack HTTP/1.1\r\n\r\n", 403),
        ("\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
        ("\x05\x01\x00\r\n\r\n", 400),
        ("GET /" + "a" * (HEAD_BYTES + 1) + " HTTP/1.1\r\n\r\n", 431),
        ("GET / HTTP/1.1\r\n" + "X: y\r\n" * 101 + "\r\n", 400),
    ],
)  # fmt: skip
async def test_it_is_refused_and_told(tmp_path: Path, request_: str, status: int) -> None:
    async def nobody(_host: str) -> Sequence[Address]:
        raise AssertionError("nobody is asked for a name")

    async with door(GRANT, tmp_path, resolve=nobody) as inside:
        said = await inside.raw(request_.replace("{port}", str(inside.port)).encode("latin-1"))
        (attempt,) = inside.attempts()
    assert said.split(b" ")[1] == str(status).encode()
    assert (attempt.verdict, attempt.status) == ("refused", status)
    assert attempt.reason != ""
    assert (attempt.up, attempt.down) == (0, 0)


def test_a_head_of_blanks_is_refused_as_quickly_as_any() -> None:
    """One of 32 KB held the engine up for seconds, with all of its plans."""

    def refused(size: int) -> None:
        with pytest.raises(Refused):
            parse(b"GET / HTTP/1.1\r\nX:" + b" " * size + b"\x00\r\n\r\n")

    require_linear(refused, 32_000)


async def test_who_closes_without_a_word_has_tried_nothing(tmp_path: Path) -> None:
    async with door(GRANT, tmp_path) as inside:
        _, writer = await asyncio.open_connection("127.0.0.1", inside.port)
        writer.close()
        await writer.wait_closed()
        await inside.raw(b"GET / HTTP/1.1\r\n\r\n")
        assert [attempt.path for attempt in inside.attempts()] == ["/"]


async def test_one_bad_connection_leaves_the_others_alone(tmp_path: Path, plain: Host) -> None:
    plain.say("/x", b"fine")
    grant = NetworkGrant(hosts=(f"http://127.0.0.1:{plain.port}",))
    async with door(grant, tmp_path) as inside:
        bad = [await asyncio.open_connection("127.0.0.1", inside.port) for _ in range(5)]
        for _, writer in bad:
            writer.write(b"POST http://127.0.0.1:%d/x HTTP/1.1\r\n" % plain.port)
        said = await inside.ask(f"http://127.0.0.1:{plain.port}/x")
        for _, writer in bad:
            writer.transport.abort()
    assert said.endswith(b"fine")


async def test_no_more_connections_are_served_at_once_than_allowed(
    tmp_path: Path, plain: Host
) -> None:
    plain.say("/x", b"fine")
    grant = NetworkGrant(hosts=(f"http://127.0.0.1:{plain.port}",), max_connections=1)
    async with door(grant, tmp_path) as inside:
        _, first = await asyncio.open_connection("127.0.0.1", inside.port)
        first.write(b"GET /")
        waiting = asyncio.create_task(inside.ask(f"http://127.0.0.1:{plain.port}/x"))
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        assert plain.seen == []
        first.close()
        assert (await waiting).endswith(b"fine")


@pytest.mark.parametrize("name", ["max_call_bytes", "max_plan_bytes"])
async def test_a_plan_that_has_had_enough_gets_no_more_and_is_told_which_limit(
    tmp_path: Path, plain: Host, name: str
) -> None:
    plain.say("/big", b"x" * 100_000)
    place = f"http://127.0.0.1:{plain.port}"
    call, plan = (50_000, 10**9) if name == "max_call_bytes" else (10**9, 50_000)
    grant = NetworkGrant(hosts=(place,), max_call_bytes=call, max_plan_bytes=plan)
    async with door(grant, tmp_path) as inside:
        first = await inside.ask(f"{place}/big")
        second = await inside.ask(f"{place}/big")
        cut, refused = inside.attempts()
        inside.network.begin_call()
        third = await inside.ask(f"{place}/big")
    assert len(first) < 100_000
    assert cut.verdict == "refused"
    assert second.startswith(b"HTTP/1.1 403 the limit `network." + name.encode())
    assert f"network.{name}" in refused.reason
    assert third.startswith(b"HTTP/1.1 200 " if name == "max_call_bytes" else b"HTTP/1.1 403 ")


async def test_what_earlier_lives_of_the_engine_carried_counts(tmp_path: Path, plain: Host) -> None:
    grant = NetworkGrant(hosts=(f"http://127.0.0.1:{plain.port}",), max_plan_bytes=1000)
    async with door(grant, tmp_path, spent=1001) as inside:
        said = await inside.ask(f"http://127.0.0.1:{plain.port}/x")
    assert said.startswith(b"HTTP/1.1 403 the limit `network.max_plan_bytes`")
    assert plain.seen == []


async def test_attempts_beyond_those_kept_are_counted(tmp_path: Path) -> None:
    async with door(GRANT, tmp_path) as inside:
        for _ in range(203):
            await inside.raw(b"CONNECT b.example:443 HTTP/1.1\r\n\r\n")
        tried = inside.network.tried()
        assert (len(tried.attempts), tried.missed) == (200, 3)
        assert [(each.place, each.attempts) for each in tried.traffic] == [("b.example:443", 203)]
        assert inside.network.tried().attempts == ()
