"""Hosts that send a secret back: in other writings, in parts, packed, in their errors."""

import asyncio
import base64
import gzip
import html
import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from network.doors import door
from network.hosts import Host
from patchyard.clients.masking import Masking
from patchyard.domain.entrusted import masked
from patchyard.domain.network import NetworkGrant
from patchyard.models.keys import HIDDEN, hide

pytestmark = pytest.mark.anyio

TOKEN = "t0ken-of/the+tests&0123456789"


def each(form: str) -> Callable[[str], str]:
    """A writing that gives each character its number."""
    return lambda text: "".join(form % ord(one) for one in text)


def mixed(text: str) -> str:
    forms = ("%s", "%%%02X", "&#%d;", "\\u%04x")
    return "".join(
        form % (one if form == "%s" else ord(one))
        for one, form in zip(text, forms * len(text), strict=False)
    )


WRITINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "large letters": str.upper,
    "JSON": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON, each": each("\\u%04X"),
    "JSON in JSON": lambda text: json.dumps(each("\\u%04x")(text))[1:-1],
    "JavaScript": each("\\x%02x"),
    "JavaScript, braces": each("\\u{%x}"),
    "octal": each("\\%03o"),
    "address": lambda text: quote(text, safe=""),
    "address, small letters": lambda text: quote(text, safe="").lower(),
    "address, each": each("%%%02X"),
    "address, twice": lambda text: quote(quote(text, safe=""), safe=""),
    "HTML": html.escape,
    "HTML, twice": lambda text: html.escape(html.escape(text)),
    "HTML, each": each("&#%d;"),
    "HTML, each in hexadecimal": each("&#x%04X;"),
    "HTML, names": lambda text: text.replace("&", "&AMP;").replace("/", "&sol;"),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal, large": lambda text: text.encode().hex().upper(),
    "mixed": mixed,
}
PACKINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "members": ("x-gzip", lambda body: gzip.compress(body[:20]) + gzip.compress(body[20:])),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("Deflate", lambda body: zlib.compress(body)[2:-4]),
}


def in_base_64(text: str) -> Iterator[str]:
    for shift in range(3):
        whole = b"abc"[:shift] + text.encode() + b"zz"
        yield base64.b64encode(whole).decode()
        yield base64.urlsafe_b64encode(whole).decode()
        yield quote(base64.b64encode(whole).decode(), safe="")


@pytest.mark.parametrize("writing", WRITINGS.values(), ids=WRITINGS)
def test_a_secret_is_taken_out_in_each_usual_writing_wherever_it_is_cut(
    writing: Callable[[str], str],
) -> None:
    written = writing(TOKEN)
    said = f"<{written}>,{written[:-1]},{written}{written[:5]}".encode()
    stars = "*" * len(written)
    kept = f"<{stars}>,{written[:-1]},{stars}{written[:5]}".encode()
    for size in (1, 7, 4096):
        assert passed(said, size) == kept
    shown = masked({"said": [f"({written})"]}, [TOKEN]), hide(f"({written})", (TOKEN,))
    assert shown == ({"said": [f"({HIDDEN})"]}, f"({HIDDEN})")


def passed(said: bytes, size: int) -> bytes:
    masking = Masking([TOKEN])
    pieces = [masking.feed(said[at : at + size]) for at in range(0, len(said), size)]
    return b"".join([*pieces, masking.rest()])


def test_nothing_that_base_64_made_of_a_secret_can_be_read_back() -> None:
    for coded in in_base_64(TOKEN):
        for size in (1, 4096):
            left = passed(f"<{coded}>".encode(), size)
            assert left.count(b"*") >= len(TOKEN) * 4 // 3 - 1
            assert len(left) == len(coded) + 2


def test_what_cannot_be_a_secret_is_passed_on_at_once() -> None:
    masking = Masking([TOKEN])
    for said in (b"data: 100% \\u0061 &amp; done\n\n", b"%61%20%C3%BC &#228;", TOKEN[1:].encode()):
        assert masking.feed(said) == said
    assert masking.feed(TOKEN[:4].encode()) == b""
    assert masking.feed(b"%20 ") == f"{TOKEN[:4]}%20 ".encode()
    assert masking.feed(TOKEN[:4].encode() + b"%6") == b""
    assert masking.rest() == f"{TOKEN[:4]}%6".encode()


def test_a_long_secret_is_taken_out_as_a_whole_and_a_short_one_not_at_all() -> None:
    long = "eyJ" + "".join(chr(33 + at * at % 89) for at in range(6000))
    masking = Masking([long, "short"])
    written = quote(long, safe="").encode()
    assert masking.masked(b"a short " + written) == b"a short " + b"*" * len(written)


async def test_headers_of_an_answer_are_searched_like_its_body(tmp_path: Path, plain: Host) -> None:
    plain.say("/x", b"", status=302, location=f"/back?{quote(TOKEN, safe='')}", x_up=TOKEN.upper())
    grant = NetworkGrant(secrets=(f"TOKEN@http://{plain.place}",))
    async with door(grant, tmp_path, more={"TOKEN": TOKEN}) as inside:
        said = await inside.ask(f"http://{plain.place}/x")
    assert b"location: /back?****" in said
    assert b"x-up: ****" in said
    assert quote(TOKEN, safe="").encode() not in said
    assert TOKEN.upper().encode() not in said


async def test_no_part_of_an_answer_can_be_asked_for_where_a_secret_is_added(
    tmp_path: Path, plain: Host
) -> None:
    place = f"http://{plain.place}"
    plain.say("/x", b"whole", accept_ranges="bytes")
    ranges = ("Range: bytes=0-9", "If-Range: x", "Request-Range: bytes=1-2")
    for grant, is_there in (
        (NetworkGrant(secrets=(f"TOKEN@{place}",)), False),
        (NetworkGrant(hosts=(place,)), True),
    ):
        async with door(grant, tmp_path, more={"TOKEN": TOKEN}) as inside:
            said = await inside.ask(f"{place}/x", *ranges)
        headers = plain.seen[-1].headers
        assert {"range", "if-range", "request-range"} <= set(headers) or not is_there
        assert not {"range", "if-range", "request-range"} & set(headers) or is_there
        assert (b"accept-ranges" in said) == is_there


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (206, {"content_range": "bytes 0-3/9"}),
        (200, {"content_range": "bytes 0-3/9"}),
        (200, {"content_type": "multipart/byteranges; boundary=x"}),
    ],
)
async def test_a_part_that_was_not_asked_for_does_not_pass(
    tmp_path: Path, plain: Host, status: int, headers: dict[str, str]
) -> None:
    plain.say("/x", TOKEN[:9].encode(), status=status, **headers)
    grant = NetworkGrant(secrets=(f"TOKEN@http://{plain.place}",))
    async with door(grant, tmp_path, more={"TOKEN": TOKEN}) as inside:
        said = await inside.ask(f"http://{plain.place}/x")
        (attempt,) = inside.attempts()
    assert said.startswith(b"HTTP/1.1 502 ")
    assert TOKEN[:9].encode() not in said
    assert "part" in attempt.reason


@pytest.mark.parametrize("packing", PACKINGS.values(), ids=PACKINGS)
async def test_an_answer_that_is_packed_all_the_same_is_unpacked_and_searched(
    tmp_path: Path, plain: Host, packing: tuple[str, Callable[[bytes], bytes]]
) -> None:
    name, packed = packing
    body = f"a {TOKEN} b".encode() + b"long" * 100_000
    plain.say("/x", packed(body), content_encoding=name)
    grant = NetworkGrant(secrets=(f"TOKEN@http://{plain.place}",))
    async with door(grant, tmp_path, more={"TOKEN": TOKEN}) as inside:
        said = await inside.raw(f"GET http://{plain.place}/x HTTP/1.0\r\n\r\n".encode())
        none = await inside.ask(f"http://{plain.place}/x", method="HEAD")
        attempts = inside.attempts()
    head, _, left = said.partition(b"\r\n\r\n")
    assert left == body.replace(TOKEN.encode(), b"*" * len(TOKEN))
    assert attempts[0].down == len(said)  # what is unpacked counts, not what came
    for lines in (head, none):
        assert b"content-encoding" not in lines
        assert b"content-length" not in lines


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("br", b"whatever"),
        ("gzip, gzip", gzip.compress(gzip.compress(TOKEN.encode()))),
        ("gzip", b"whatever"),
        ("gzip", gzip.compress(b"long" * 9)[:-6]),
        ("deflate", b"x"),
    ],
    ids=["unknown", "twice", "nonsense", "cut off", "one byte"],
)
async def test_an_answer_that_cannot_be_unpacked_does_not_pass(
    tmp_path: Path, plain: Host, name: str, body: bytes
) -> None:
    plain.say("/x", body, content_encoding=name)
    grant = NetworkGrant(secrets=(f"TOKEN@http://{plain.place}",))
    async with door(grant, tmp_path, more={"TOKEN": TOKEN}) as inside:
        said = await inside.ask(f"http://{plain.place}/x")
        (attempt,) = inside.attempts()
    assert not said.endswith(b"0\r\n\r\n")
    assert body not in said
    assert (attempt.verdict, "pack" in attempt.reason) == ("failed", True)


async def test_what_is_unpacked_is_bounded_as_what_comes_is(tmp_path: Path, plain: Host) -> None:
    plain.say("/x", gzip.compress(bytes(20_000_000)), content_encoding="gzip")
    grant = NetworkGrant(secrets=(f"TOKEN@http://{plain.place}",), max_call_bytes=1_000_000)
    async with door(grant, tmp_path, more={"TOKEN": TOKEN}) as inside:
        said = await inside.ask(f"http://{plain.place}/x")
        (attempt,) = inside.attempts()
    assert len(said) < 1_100_000
    assert "max_call_bytes" in attempt.reason


@asynccontextmanager
async def echoing(answer: Callable[[bytes], bytes]) -> AsyncIterator[int]:
    """A host whose answer is made of the value it was given; yields its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(head.partition(b"Bearer ")[2].partition(b"\r\n")[0]))
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        lambda value: CHUNKED + value + b"\r\n",
        lambda value: CHUNKED + b"1\r\nx\r\n0\r\n" + value + b"\r\n\r\n",
        lambda value: b"HTTP/1.1 200 OK\r\n" + value + b"\r\n\r\n",
        lambda value: value + b"\r\n\r\n",
        lambda value: b"HTTP/1.1 200 OK\r\nContent-Encoding: " + value + b"\r\n\r\n",
    ],
)
async def test_an_answer_that_breaks_the_protocol_with_a_secret_is_told_without_it(
    tmp_path: Path, answer: Callable[[bytes], bytes]
) -> None:
    async with echoing(answer) as port:
        grant = NetworkGrant(secrets=(f"TOKEN@http://127.0.0.1:{port}",))
        async with door(grant, tmp_path, more={"TOKEN": TOKEN}) as inside:
            said = await inside.ask(f"http://127.0.0.1:{port}/x")
            (attempt,) = inside.attempts()
    assert attempt.verdict == "failed"
    assert TOKEN not in said.decode("latin-1") + attempt.reason
