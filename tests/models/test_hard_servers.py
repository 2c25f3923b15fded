"""Servers that a client has to be protected from, over real sockets: each ends in clear words."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from models.certificates import served_as
from models.loopback import Json, LoopbackServer, Peer, Refusal
from models.test_provider_troubles import ASKED, SECRET, SPEAKERS, chat_model, everything
from patchyard.clients.http import HttpClient, HttpTrouble, Trouble, Waits
from patchyard.clients.http_trouble import shown
from patchyard.domain.errors import ModelFailed, ModelUnavailable, PatchyardError
from patchyard.models.chat_completions import ChatCompletionsModel
from patchyard.models.keys import Key
from patchyard.models.troubles import Provider

pytestmark = pytest.mark.anyio

HASTY = Waits(connect_s=60, first_byte_s=60, idle_s=60, whole_s=0.2)
Behaving = Callable[[Peer], Any]


@dataclass(kw_only=True)
class HardServer(LoopbackServer):
    """Does one thing to whoever asks."""

    behaving: Behaving

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        self.requests.append({"method": method, "path": path, **data})
        await self.behaving(peer)
        return False


@asynccontextmanager
async def serving(behaving: Behaving) -> AsyncIterator[tuple[HardServer, str]]:
    server = HardServer(behaving=behaving)
    async with server.running() as url:
        yield server, url


async def trickling_head(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 200 OK\r\nx-long: ")
    while True:
        await peer.send(b"x")
        await asyncio.sleep(0)


async def trickling_body(peer: Peer) -> None:
    await peer.begin("text/event-stream")
    while True:
        await peer.chunk(b":")
        await asyncio.sleep(0)


async def never_ending(peer: Peer) -> None:
    await peer.begin("text/event-stream")
    while True:
        await peer.chunk(b"\n\n\n")
        await asyncio.sleep(0)


@pytest.mark.parametrize("fmt", SPEAKERS)
@pytest.mark.parametrize("behaving", [trickling_head, trickling_body, never_ending])
async def test_an_answer_without_an_end_is_given_up_and_can_be_asked_again(
    fmt: str, behaving: Behaving
) -> None:
    async with serving(behaving) as (_, url):
        model = SPEAKERS[fmt][1](url, waits=HASTY)
        with pytest.raises(ModelFailed, match=r"end of its answer within 0\.2 s") as caught:
            await model.complete(ASKED)
        await model.close()
    assert caught.value.retryable
    assert "agents plan resume" in caught.value.hint


async def test_a_list_of_models_without_an_end_is_given_up_too() -> None:
    async with serving(trickling_body) as (_, url), HttpClient(url, waits=HASTY) as client:
        with pytest.raises(HttpTrouble) as caught:
            await client.fetch("/models")
    assert caught.value.kind is Trouble.TIMEOUT


def bomb(status: int, kind: str) -> Behaving:
    body = gzip.compress(b"\0" * 200_000_000, compresslevel=1)

    async def send(peer: Peer) -> None:
        head = (
            f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-encoding: gzip\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        await peer.send(head.encode() + body)

    return send


@pytest.mark.parametrize("fmt", SPEAKERS)
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_a_small_body_that_unpacks_to_a_huge_one_is_read_no_further(
    fmt: str, kind: str
) -> None:
    async with serving(bomb(200, kind)) as (_, url):
        model = SPEAKERS[fmt][1](url)
        with pytest.raises(ModelFailed, match="more than is read"):
            await model.complete(ASKED)
        await model.close()


async def test_an_error_that_unpacks_to_a_huge_one_says_its_status() -> None:
    async with serving(bomb(500, "text/plain")) as (_, url):
        model = chat_model(url)
        with pytest.raises(ModelFailed, match="answered 500") as caught:
            await model.complete(ASKED)
        await model.close()
    assert len(caught.value.message) < 1_000


@pytest.mark.parametrize("fmt", SPEAKERS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_the_key_stays(fmt: str, status: int) -> None:
    async def answer(peer: Peer) -> None:
        await peer.whole({}, status=200)

    async with serving(answer) as (elsewhere, other):

        async def send_on(peer: Peer) -> None:
            location = f"{other}/v1?token=s3cret".replace("http://", "http://user:s3cret@")
            await peer.whole({}, status=status, headers={"location": location})

        async with serving(send_on) as (_, url):
            model = SPEAKERS[fmt][1](url)
            with pytest.raises(ModelUnavailable, match="sends on to") as caught:
                await model.complete(ASKED)
            await model.close()
    assert elsewhere.connections == 0
    assert f"{other}/v1," in caught.value.message
    assert "base_url" in caught.value.hint
    assert "s3cret" not in caught.value.message + caught.value.hint


async def test_a_redirect_to_nowhere_is_said() -> None:
    error = await refused(refusing(302, {}, location="http://[x"))
    assert "sends on to what is no address" in error.message


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://user:pw@h:8/v1?key=pw#pw", "https://h:8/v1"),
        ("http://u:p/w@[::1]/x", "http://[::1]/x"),
        ("http://h/v1", "http://h/v1"),
        ("nowhere", "nowhere"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(url: str, plain: str) -> None:
    assert shown(url) == plain


async def test_the_password_of_an_address_is_in_no_error() -> None:
    model = chat_model("http://user:s3cret-word@127.0.0.1:9/v1")
    with pytest.raises(ModelUnavailable, match=r"http://127\.0\.0\.1:9/v1") as caught:
        await model.complete(ASKED)
    await model.close()
    assert "s3cret-word" not in caught.value.message + str(caught.value.__cause__)


@pytest.mark.parametrize("fmt", SPEAKERS)
@pytest.mark.parametrize(("name", "words"), [("127.0.0.1", "self-signed"), ("x", "self-signed")])
async def test_a_certificate_that_nobody_vouches_for_is_refused(
    fmt: str, name: str, words: str, tmp_path: Path
) -> None:
    _, tls = served_as(name, tmp_path)
    server = SPEAKERS[fmt][0](tls=tls)
    async with server.running() as url:
        model = SPEAKERS[fmt][1](url)
        with pytest.raises(ModelUnavailable, match=words) as caught:
            await model.complete(ASKED)
        await model.close()
    assert server.requests == []
    assert "SSL_CERT_FILE" in caught.value.hint


async def test_a_certificate_of_another_host_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, tls = served_as("other.invalid", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = SPEAKERS["chat"][0](tls=tls)
    async with server.running() as url:
        model = chat_model(url.replace("127.0.0.1", "localhost"))
        with pytest.raises(ModelUnavailable, match="not valid for 'localhost'"):
            await model.complete(ASKED)
        await model.close()
    assert server.requests == []


async def test_tls_with_a_server_that_speaks_none_is_said() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        model = chat_model(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(ModelUnavailable, match="no secure connection"):
            await model.complete(ASKED)
        await model.close()


def refusing(status: int, body: Any, **headers: str) -> Behaving:
    async def refuse(_: Peer) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        raise Refusal(status, body, headers=named)

    return refuse


async def refused(behaving: Behaving) -> PatchyardError:
    async with serving(behaving) as (_, url):
        model = chat_model(url)
        with pytest.raises((ModelFailed, ModelUnavailable)) as caught:
            await model.complete(ASKED)
        await model.close()
    return caught.value


@pytest.mark.parametrize(
    ("behaving", "kind", "cure", "retryable"),
    [
        (refusing(413, {}), "context_too_long", "context_tokens", False),
        (refusing(402, {"error": "Insufficient Balance"}), "no_quota", "no credit", False),
        (refusing(429, {"error": "check your billing"}), "no_quota", "no credit", False),
        (
            refusing(429, {"error": "quota and billing"}, retry_after="9"),
            *("rate_limited", "wait 9 s", True),
        ),
        (refusing(429, {"error": "slow"}, retry_after="soon"), "rate_limited", "a while", True),
        (refusing(429, {"error": "slow"}, retry_after="-1"), "rate_limited", "a while", True),
        (refusing(429, {"error": "slow"}, retry_after="nan"), "rate_limited", "a while", True),
    ],
)
async def test_each_refusal_has_its_kind_and_its_cure(
    behaving: Behaving, kind: str, cure: str, *, retryable: bool
) -> None:
    error = await refused(behaving)
    assert error.details["kind"] == kind
    assert cure in error.hint
    assert error.retryable is retryable


async def test_a_date_to_come_again_is_turned_into_seconds() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    error = await refused(refusing(429, {"error": "slow"}, retry_after=later))
    assert 3_000 < error.details["retry_after_s"] <= 3_600
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    error = await refused(refusing(429, {"error": "slow"}, retry_after=past))
    assert error.details["retry_after_s"] == 0


async def test_a_missing_model_is_answered_with_the_nearest_there_are() -> None:
    async with SPEAKERS["chat"][0]().running() as url:
        model = chat_model(url, name="tny")
        with pytest.raises(ModelUnavailable) as caught:
            await model.complete(ASKED)
        await model.close()
    assert caught.value.hint == "it has `tiny`"


async def test_a_wrong_path_is_told_from_a_wrong_name() -> None:
    error = await refused(refusing(404, {"detail": "Not Found"}))
    assert "/v1" in error.hint


@pytest.mark.parametrize("key", ["two\nlines", "schlüssel"])
async def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key: str) -> None:
    provider = Provider(
        name="house",
        base_url="http://127.0.0.1:9",
        model="m",
        key=Key(variable="HOUSE_KEY", environ={"HOUSE_KEY": key}),
    )
    async with HttpClient(provider.base_url) as client:
        with pytest.raises(ModelUnavailable, match="HOUSE_KEY") as caught:
            await ChatCompletionsModel(provider, client).complete(ASKED)
    assert key not in everything(caught.value)


async def test_an_address_with_an_impossible_port_is_said() -> None:
    model = chat_model("http://127.0.0.1:99999999/v1")
    with pytest.raises(ModelUnavailable, match="no address") as caught:
        await model.complete(ASKED)
    await model.close()
    assert SECRET not in everything(caught.value)


@pytest.mark.parametrize(
    "stated",
    [
        "Mon, 01 Jan 99999999999 00:00:00 GMT",
        f"{'9' * 50} Jan 2020 00:00:00",
        f"1 Jan 2020 00:00:00 +{'9' * 20}",
        "Mon, 99 Zzz 2020 99:99:99",
    ],
)
@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_a_time_to_wait_that_is_none_is_passed_over(fmt: str, stated: str) -> None:
    async def limiting(peer: Peer) -> None:
        await peer.whole({"error": "slowly"}, status=429, headers={"retry-after": stated})

    async with serving(limiting) as (_, url):
        model = SPEAKERS[fmt][1](url)
        with pytest.raises(ModelFailed, match="slow down") as caught:
            await model.complete(ASKED)
        await model.close()
    assert caught.value.details["retry_after_s"] is None
