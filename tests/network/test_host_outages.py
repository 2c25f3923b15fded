"""The outage drill of granted hosts: each fault, with TLS and without, with a secret and without.

What fails is said with a status of its own, nothing unfinished passes as whole, no secret is in
what is said, and the next request is served.
"""

import asyncio
import http.client
from pathlib import Path

import pytest

from models.certificates import authority_in, served_as, signed_in
from models.loopback import Peer
from network.doors import door
from network.host_outages import (
    OK,
    SCHEMES,
    Behaving,
    Tls,
    Way,
    asking,
    behaving,
    dripping,
    saying,
    taken,
    unanswering,
)
from network.test_forwarded_requests import TOKEN
from patchyard.clients import leaving, web_forwarding
from patchyard.domain.network import NetworkGrant

pytestmark = pytest.mark.anyio

SOON_S = 1.0
BODY = b"half of it, "
AS_LONG_AS = OK + b"Content-Length: 99\r\n\r\n" + BODY
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\nc\r\n" + BODY + b"\r\n"
UNTIL_THE_END = OK + b"\r\n" + BODY
FRAMES = {"length": AS_LONG_AS, "chunks": CHUNKED, "close": UNTIL_THE_END}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    own, foreign = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("foreign")
    file = authority_in(own)
    others = {
        "wrong name": signed_in(own, "other.example"),
        "expired": signed_in(own, "localhost", days=-1),
        "unknown authority": served_as("localhost", foreign)[1],
    }
    return Tls(file, signed_in(own, "localhost"), others)


def be_impatient(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Wait little where the fault is told by a wait, and nowhere else."""
    for name in names:
        monkeypatch.setattr(web_forwarding, name, SOON_S)


async def unreached(
    way: Way, status: int, monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> bytes:
    """Return what is said inside of a host that was not reached, with its status everywhere."""
    with monkeypatch.context() as patched:
        if is_late:
            be_impatient(patched, "CONNECT_TIMEOUT_S")
        got, said = await way.get()
    tried = await way.tried()
    assert (got, tried.status, tried.verdict) == (status, status, "failed")
    return said


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [("refused", 502, b"takes no connection"), ("unanswered", 504, b"no connection in time")],
)
async def test_a_host_that_takes_no_connection_is_said_to(
    fault: str,
    status: int,
    words: bytes,
    scheme: str,
    tls: Tls,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with unanswering() if fault == "unanswered" else taken() as port:
        async with asking(port, scheme, tls, tmp_path) as way:
            said = await unreached(way, status, monkeypatch, is_late=fault == "unanswered")
    assert b" cannot be reached" in said
    assert words in said


@pytest.mark.parametrize(
    ("fault", "how", "status", "words"),
    [
        ("cut", saying(b""), 502, b"ended in the middle"),
        ("reset", saying(b"", "reset"), 502, b"ended in the middle"),
        ("silent", saying(b"", "silent"), 504, b"no connection in time"),
        ("refused", saying(b"\x15\x03\x03\x00\x02\x02\x28"), 502, b"no secure connection"),
        ("no TLS", saying(b"HTTP/1.1 400 X\r\n\r\n"), 502, b"no secure connection"),
    ],
)
async def test_a_handshake_that_fails_is_said_to(
    fault: str,
    how: Behaving,
    status: int,
    words: bytes,
    tls: Tls,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        behaving(how, None, is_raw=True) as port,
        asking(port, "https", tls, tmp_path) as way,
    ):
        said = await unreached(way, status, monkeypatch, is_late=fault == "silent")
    assert b" cannot be reached by TLS" in said
    assert words in said


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("wrong name", b"not valid for 'localhost'"),
        ("expired", b"certificate has expired"),
        ("unknown authority", b"self-signed certificate"),
    ],
)
async def test_a_host_with_a_wrong_certificate_is_asked_nothing(
    fault: str, words: bytes, tls: Tls, tmp_path: Path
) -> None:
    asked: list[Peer] = []

    async def remember(peer: Peer) -> None:
        asked.append(peer)

    async with (
        behaving(remember, tls.others[fault]) as port,
        asking(port, "https", tls, tmp_path) as way,
    ):
        got, said = await way.get()
        tried = await way.tried()
    assert (got, tried.verdict) == (502, "failed")
    assert words in said.lower() or words in said
    assert asked == []


BEFORE = {
    "cut": saying(b""),
    "reset": saying(b"", "reset"),
    "cut in the first line": saying(b"HTTP/1.1 20"),
    "reset in the first line": saying(b"HTTP/1.1 20", "reset"),
    "cut in the headers": saying(OK + b"Content-Le"),
    "reset in the headers": saying(OK + b"Content-Le", "reset"),
    "nonsense": saying(b"nonsense\r\n\r\n"),
    "another protocol": saying(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "no end of the headers": dripping(OK, b"X-Long: " + b"x" * 8_000 + b"\r\n"),
    "a length that is none": saying(OK + b"Content-Length: soon\r\n\r\n"),
    "a status that is none": saying(b"HTTP/1.1 99999 X\r\n\r\n"),
    "a header with a zero": saying(OK + b"X: a\0b\r\n\r\n"),
}
DAMAGED = saying(b"", "damaged")
HANGS = {
    "mute": saying(b"", "silent"),
    "silent in the headers": saying(OK, "silent"),
    "slow headers": dripping(OK + b"X: ", b"x"),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("fault", [*BEFORE, "damaged"])
async def test_an_answer_that_does_not_begin_is_said(
    fault: str, scheme: str, tls: Tls, tmp_path: Path
) -> None:
    how = BEFORE.get(fault, DAMAGED)
    async with (
        behaving(how, tls.right if scheme == "https" else None) as port,
        asking(port, scheme, tls, tmp_path) as way,
    ):
        got, said = await way.get()
        tried = await way.tried()
    assert (got, tried.status, tried.verdict) == (502, 502, "failed")
    assert b" answered badly: " in said
    assert TOKEN.encode() not in said


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("fault", HANGS)
@pytest.mark.parametrize("limit", ["READ_TIMEOUT_S", "ANSWER_TIMEOUT_S"])
async def test_an_answer_that_is_not_begun_in_time_is_said(
    limit: str,
    fault: str,
    scheme: str,
    tls: Tls,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if (limit, fault) == ("READ_TIMEOUT_S", "slow headers"):
        limit = "ANSWER_TIMEOUT_S"  # a host that is never silent is held to this one alone
    async with (
        behaving(HANGS[fault], tls.right if scheme == "https" else None) as port,
        asking(port, scheme, tls, tmp_path) as way,
    ):
        with monkeypatch.context() as patched:
            be_impatient(patched, limit)
            got, said = await way.get()
        tried = await way.tried()
    assert (got, tried.status, tried.verdict) == (504, 504, "failed")
    assert b" did not begin its answer in time" in said


@pytest.mark.parametrize("has_secret", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 529])
async def test_what_a_host_says_of_being_busy_passes_as_it_is(
    status: int, scheme: str, tls: Tls, tmp_path: Path, *, has_secret: bool
) -> None:
    answer = f"HTTP/1.1 {status} Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy"
    how = saying(answer.encode())
    async with (
        behaving(how, tls.right if scheme == "https" else None) as port,
        asking(port, scheme, tls, tmp_path, secret=has_secret) as way,
    ):
        said = await way.inside.ask(way.target)
        tried = await way.tried()
    assert said.startswith(f"HTTP/1.1 {status} Busy\r\n".encode())
    assert b"retry-after: 7\r\n" in said
    assert said.endswith(b"\r\n\r\nbusy")
    assert (tried.status, tried.verdict) == (status, "passed")


def broken_bodies() -> list[tuple[str, str, str]]:
    """Each end of a body that is not whole, for each frame of it, by each scheme.

    One that only the end of the connection ends is whole where that is cut without TLS.
    """
    found = [
        (frame, fault, scheme)
        for frame in FRAMES
        for fault in ("", "reset", "silent", "unclosed", "damaged")
        for scheme in SCHEMES
        if scheme == "https" or fault not in {"unclosed", "damaged"}
    ]
    return [each for each in found if each[:2] != ("close", "")]


@pytest.mark.parametrize(("version", "has_secret"), [(10, True), (11, True), (11, False)])
@pytest.mark.parametrize("case", broken_bodies(), ids="-".join)
async def test_a_body_that_breaks_off_does_not_pass_as_whole(
    case: tuple[str, str, str],
    version: int,
    tls: Tls,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_secret: bool,
) -> None:
    frame, fault, scheme = case
    how = saying(FRAMES[frame], fault)
    async with (
        behaving(how, tls.right if scheme == "https" else None) as port,
        asking(port, scheme, tls, tmp_path, secret=has_secret) as way,
    ):
        with monkeypatch.context() as patched:
            if fault == "silent":
                be_impatient(patched, "READ_TIMEOUT_S")
            with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
                await way.get(version=version)
        tried = await way.tried()
    assert (tried.status, tried.verdict) == (200, "failed")
    assert tried.reason.startswith("the answer broke off: ")


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (OK + b"Content-Length: 5\r\n\r\nwhole", "unclosed"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n", "unclosed"),
        (OK + b"Content-Length: 5\r\n\r\nwhole", "silent"),
        (OK + b"\r\nwhole", ""),
        (b"HTTP/1.0 200 OK\r\n\r\nwhole", ""),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nwhole", "unclosed"),
    ],
)
async def test_what_is_whole_by_its_own_words_passes_however_the_connection_ends(
    answer: bytes, fault: str, scheme: str, version: int, tls: Tls, tmp_path: Path
) -> None:
    if (scheme, fault) == ("http", "unclosed"):
        fault = ""  # without TLS there is nothing to leave out
    async with (
        behaving(saying(answer, fault), tls.right if scheme == "https" else None) as port,
        asking(port, scheme, tls, tmp_path) as way,
    ):
        got = await way.get(version=version)
        tried = await way.tried()
    assert got == (200, b"whole")
    assert tried.verdict == "passed"


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_body_without_an_end_is_cut_where_the_bytes_of_a_call_are_used(
    scheme: str, tls: Tls, tmp_path: Path
) -> None:
    how = dripping(UNTIL_THE_END, b"x" * 60_000)
    async with behaving(how, tls.right if scheme == "https" else None) as port:
        place = f"{'http://' if scheme == 'http' else ''}localhost:{port}"
        grant = NetworkGrant(secrets=(f"TOKEN@{place}",), max_call_bytes=1_000_000)
        more = {"TOKEN": TOKEN, "SSL_CERT_FILE": str(tls.file)}
        async with door(grant, tmp_path, more=more) as inside:
            with pytest.raises(http.client.IncompleteRead):
                await Way(inside=inside, place=place).get()
            (attempt,) = await inside.told(1)
    assert (attempt.verdict, attempt.status) == ("refused", 200)
    assert "network.max_call_bytes" in attempt.reason


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_slow_body_comes_as_it_is_sent(scheme: str, tls: Tls, tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def half(peer: Peer) -> None:
        await peer.send(OK + b"Content-Length: 8\r\n\r\n1234")
        await may_end.wait()
        await peer.send(b"5678")

    async with (
        behaving(half, tls.right if scheme == "https" else None) as port,
        asking(port, scheme, tls, tmp_path, secret=False) as way,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", way.inside.port)
        writer.write(way.request)
        async with asyncio.timeout(120):
            await reader.readuntil(b"\r\n\r\n1234")
            may_end.set()
            assert await reader.read() == b"5678"
        writer.close()
        assert (await way.tried()).verdict == "passed"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("said", [b"", UNTIL_THE_END])
async def test_a_program_that_leaves_a_silent_host_gives_its_connection_back(
    said: bytes, scheme: str, tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "LEFT_S", 0.1)
    left = asyncio.Event()

    async def hang(peer: Peer) -> None:
        await peer.send(said)
        await peer.left()
        left.set()

    async with (
        behaving(hang, tls.right if scheme == "https" else None) as port,
        asking(port, scheme, tls, tmp_path) as way,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", way.inside.port)
        writer.write(way.request)
        async with asyncio.timeout(60):
            if said:
                await reader.readuntil(BODY[:4])
            writer.close()
            await left.wait()
        (attempt,) = await way.inside.told(1)
    assert attempt.verdict == "failed"
    assert "had left" in attempt.reason


async def test_a_program_that_only_said_all_it_will_gets_its_answer(
    tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "LOOK_S", 0.01)
    looked = asyncio.Event()

    async def late(peer: Peer) -> None:
        await looked.wait()
        await peer.send(OK + b"Content-Length: 4\r\n\r\nlate")

    async with behaving(late, None) as port, asking(port, "http", tls, tmp_path) as way:
        reader, writer = await asyncio.open_connection("127.0.0.1", way.inside.port)
        writer.write(way.request)
        writer.write_eof()
        async with asyncio.timeout(60):
            await asyncio.sleep(0.1)
            looked.set()
            assert (await reader.read()).endswith(b"late")
        writer.close()
