"""A connection to a model's provider that is not made, and an answer that is not begun."""

import asyncio
from pathlib import Path

import pytest

from models.certificates import authority_in, signed_in
from models.loopback import Peer
from models.test_provider_troubles import ASKED, PATIENT, SECRET, SPEAKERS
from network.host_outages import OK, SCHEMES, behaving, dripping, saying, unanswering
from patchyard.clients.http import Waits
from patchyard.domain.errors import ModelFailed, ModelUnavailable

pytestmark = pytest.mark.anyio

HASTY = Waits(connect_s=0.3, first_byte_s=60, idle_s=60)
WAITING = Waits(connect_s=60, first_byte_s=0.3, idle_s=60)
BOUNDED = Waits(connect_s=60, first_byte_s=60, idle_s=60, whole_s=0.5)
HEADERS = {
    "cut in the first line": (saying(b"HTTP/1.1 20"), PATIENT, "ended in the middle"),
    "reset in the first line": (saying(b"HTTP/1.1 20", "reset"), PATIENT, "ended in the middle"),
    "cut in the headers": (saying(OK + b"Content-Le"), PATIENT, "ended in the middle"),
    "reset in the headers": (saying(OK + b"Content-Le", "reset"), PATIENT, "ended in the middle"),
    "silent in the headers": (saying(OK + b"Content-Le", "silent"), WAITING, "no answer in time"),
    "slow headers": (dripping(OK + b"X: ", b"x"), BOUNDED, "within 0.5 s"),
    "no end of the headers": (dripping(OK, b"X: " + b"x" * 8_000 + b"\r\n"), PATIENT, ""),
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    authority_in(folder)
    return folder


@pytest.fixture(autouse=True)
def trusting(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own / "ca.pem"))


async def failed(fmt: str, url: str, waits: Waits) -> ModelFailed:
    """Return what a request comes to, which may be asked again."""
    model = SPEAKERS[fmt][1](url, waits=waits)
    with pytest.raises(ModelFailed) as caught:
        async with asyncio.timeout(60):
            await model.complete(ASKED)
    await model.close()
    assert caught.value.retryable
    assert SECRET not in repr(caught.value)
    return caught.value


@pytest.mark.parametrize("fmt", SPEAKERS)
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_connection_that_is_never_answered_is_a_time_out(scheme: str, fmt: str) -> None:
    with unanswering() as port:
        error = await failed(fmt, f"{scheme}://localhost:{port}", HASTY)
    assert "no connection in time" in error.message


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_a_handshake_that_is_never_answered_is_a_time_out(fmt: str) -> None:
    async with behaving(saying(b"", "silent"), None, is_raw=True) as port:
        error = await failed(fmt, f"https://localhost:{port}", HASTY)
    assert "no connection in time" in error.message


@pytest.mark.parametrize("fmt", SPEAKERS)
@pytest.mark.parametrize(
    ("name", "days", "words", "cure"),
    [
        ("localhost", -1, "certificate has expired", "its certificate is over"),
        ("other.example", 2, "not valid for 'localhost'", "its certificate is for another host"),
    ],
)
async def test_a_provider_with_a_wrong_certificate_is_told_nothing(
    name: str, days: int, words: str, cure: str, fmt: str, own: Path
) -> None:
    told: list[Peer] = []

    async def hear(peer: Peer) -> None:
        told.append(peer)

    context = await asyncio.to_thread(lambda: signed_in(own, name, days=days))
    async with behaving(hear, context, is_raw=True) as port:
        model = SPEAKERS[fmt][1](f"https://localhost:{port}", waits=PATIENT)
        with pytest.raises(ModelUnavailable, match=words) as caught:
            await model.complete(ASKED)
        await model.close()
    assert "no secure connection" in caught.value.message
    assert caught.value.hint.startswith(cure)
    assert told == []


@pytest.mark.parametrize("fmt", SPEAKERS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("fault", HEADERS)
async def test_an_answer_that_is_not_begun_is_asked_again(
    fault: str, scheme: str, fmt: str, own: Path
) -> None:
    how, waits, words = HEADERS[fault]
    context = await asyncio.to_thread(signed_in, own, "localhost") if scheme == "https" else None
    async with behaving(how, context) as port:
        error = await failed(fmt, f"{scheme}://localhost:{port}", waits)
    assert words in error.message
