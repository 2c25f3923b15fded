"""What comes over a channel to a host, whatever that host sends."""

import asyncio
import json
from typing import Any

import pytest

from patchyard.clients import ssh_talk
from patchyard.clients.ssh import SAID_CHARS
from patchyard.clients.ssh_talk import LONGEST_LINE, Conversation, _Bridge, _parsed, _Stream
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable

pytestmark = pytest.mark.anyio


class Heard(asyncio.Protocol):
    """A protocol that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.told.append(transport)

    def data_received(self, data: bytes) -> None:
        self.told.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append(exc)


class Channel:
    """A channel that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def write(self, data: bytes) -> None:
        self.asked.append(data)

    def is_closing(self) -> bool:
        return bool(self.asked)

    def close(self) -> None:
        self.asked.append("close")

    def abort(self) -> None:
        self.asked.append("abort")


async def test_without_a_token_bytes_count_from_the_first() -> None:
    heard, channel = Heard(), Channel()
    bridge = _Bridge(heard)
    bridge.session_started()
    bridge.connection_made(channel)
    bridge.data_received(b"one", None)
    bridge.data_received(b"of its standard error", 1)
    bridge.pause_writing()
    bridge.resume_writing()
    assert bridge.eof_received() is False
    bridge.exit_status_received(0)
    bridge.exit_signal_received("KILL", False, "", "")
    bridge.connection_lost(None)
    stream, *told = heard.told
    assert told == [b"one", None]
    assert isinstance(stream, _Stream)
    assert stream.is_closing() is False
    stream.write(bytearray(b"back"))
    stream.close()
    stream.abort()
    assert channel.asked == [b"back", "close", "abort"]


async def test_with_a_token_bytes_count_after_its_line() -> None:
    heard = Heard()
    bridge = _Bridge(heard, "token")
    bridge.connection_made(Channel())
    for piece in (b"welcome\n", b"to this host\n\ntok", b"en {", b"}\nfirst"):
        bridge.data_received(piece, None)
    assert await bridge.answered == {}
    assert heard.told[1:] == [b"first"]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b'\ntoken {"refused": "nobody"}\n', {"refused": "nobody"}),
        (b"\ntoken [1]\n", {"lost": "it answered nonsense"}),
        (b"\ntoken {\n", {"lost": "it answered nonsense"}),
        (b"\ntoken " + b"[" * 200_000 + b"\n", {"lost": "it answered nonsense"}),
        (
            b'\ntoken {"a": ' + b"[" * 200 + b"]" * 200 + b"}\n",
            {"lost": "it answered nonsense"},
        ),
        (b'\ntoken {"uid": ' + b"9" * 5000 + b"}\n", {"lost": "it answered nonsense"}),
    ],
)
async def test_a_refusal_is_no_stream(said: bytes, answer: dict[str, str]) -> None:
    heard = Heard()
    bridge = _Bridge(heard, "token")
    bridge.connection_made(Channel())
    bridge.data_received(said, None)
    assert (await bridge.answered, heard.told) == (answer, [])
    assert _parsed(b"nonsense") == {"lost": "it answered nonsense"}


async def test_a_host_that_talks_without_end_is_cut_off() -> None:
    channel = Channel()
    bridge = _Bridge(Heard(), "token")
    bridge.connection_made(channel)
    bridge.data_received(b"x" * (LONGEST_LINE + 1), None)
    bridge.connection_lost(OSError("cut"))
    assert (channel.asked, await bridge.answered) == (["abort"], {"lost": "cut"})


class Host:
    """A process on a host that answers each request with what it was told to, or not at all."""

    def __init__(self, said: bytes) -> None:
        self.said = said
        self.stdin = self.stdout = self
        self.token = b""

    def write(self, data: bytes) -> None:
        self.token = str(json.loads(data)["token"]).encode()

    async def drain(self) -> None:
        """It takes all."""

    async def readuntil(self, _: bytes) -> bytes:
        if not self.said:
            await asyncio.Event().wait()
        return self.token + b" " + self.said + b"\n"


@pytest.mark.parametrize(
    ("said", "error", "told"),
    [
        (
            b'{"refused": "no\\nhint: all fine\\r\\u2028ok"}',
            EnvironmentUnavailable,
            "far cannot serve an environment: no hint: all fine ok",
        ),
        (b'{"lost": "it\\nended"}', EnvironmentBroken, "far: it ended"),
        (
            b'{"lost": "' + b"x" * 9000 + b'"}',
            EnvironmentBroken,
            "far: " + "x" * SAID_CHARS,
        ),
        (b"[" * 200_000, EnvironmentBroken, "far: it answered nonsense"),
        (b"", EnvironmentBroken, "far fell silent: nothing came within 0.01 s"),
    ],
    ids=["refused", "lost", "lost without end", "deep", "silent"],
)
async def test_what_a_host_says_is_one_line_that_ends(
    monkeypatch: pytest.MonkeyPatch, said: bytes, error: type[Exception], told: str
) -> None:
    monkeypatch.setattr(ssh_talk, "ANSWER_S", 0.01)
    process: Any = Host(said)
    with pytest.raises(error) as raised:
        await Conversation(process, "far").ask("prepare")
    assert str(raised.value) == told
