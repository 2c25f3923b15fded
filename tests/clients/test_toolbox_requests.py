"""What a toolbox answers to requests that the engine's own client never sends."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from patchyard.toolbox.wire import Decoder, encode
from toolboxes import Server, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as started:
        yield started


@contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    """Connect as anybody could who has the socket."""
    with socket.socket(socket.AF_UNIX) as peer:
        folder = os.open(path.parent, os.O_PATH)
        try:
            peer.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        peer.settimeout(60)
        yield peer


def asked(path: Path, *messages: dict[str, Any], count: int | None = None) -> list[dict[str, Any]]:
    """Send messages on a connection of their own and return the answers, one for each."""
    decoder = Decoder()
    heard: list[dict[str, Any]] = []
    with connected(path) as peer:
        peer.sendall(b"".join(map(encode, messages)))
        while len(heard) < (len(messages) if count is None else count):
            heard += decoder.feed(peer.recv(65536))
    return heard


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({}, "no such request"),
        ({"do": "dance"}, "no such request"),
        ({"do": ["call"]}, "no such request"),
        ({"do": "call", "op": "read_file", "args": {}}, "call_id"),
        ({"do": "call", "call_id": "", "op": "read_file", "args": {}}, "call_id"),
        ({"do": "call", "call_id": "x" * 129, "op": "read_file", "args": {}}, "call_id"),
        ({"do": "call", "call_id": "a\nb", "op": "read_file", "args": {}}, "call_id"),
        ({"do": "attach"}, "call_id"),
        ({"do": "attach", "call_id": "\n" * 9_000_000}, "call_id"),
        ({"do": "call", "call_id": "a", "op": 7, "args": {}}, "op and args"),
        ({"do": "call", "call_id": "a", "op": "read_file", "args": []}, "op and args"),
    ],
)
async def test_a_request_that_is_none_is_an_error_and_the_next_is_answered(
    server: Server, message: dict[str, Any], said: str
) -> None:
    error, hello = await asyncio.to_thread(asked, server.path, message, {"do": "hello"})
    assert error["say"] == "error"
    assert said in error["message"]
    assert (hello["say"], hello["calls"]) == ("hello", [])


async def test_names_that_were_never_given_are_unknown(server: Server) -> None:
    messages = (
        {"do": "forget", "call_ids": 7},
        {"do": "cancel"},
        {"do": "attach", "call_id": "none"},
        {"do": "hello"},
    )
    answers = await asyncio.to_thread(asked, server.path, *messages, count=2)
    assert [answer["say"] for answer in answers] == ["unknown", "hello"]


@pytest.mark.parametrize(("asking", "pieces"), [({}, 1), ({"is_listening": False}, 0)])
async def test_who_does_not_listen_gets_output_with_the_result_alone(
    server: Server, asking: dict[str, bool], pieces: int
) -> None:
    call = {"do": "call", "call_id": "c", "op": "execute_command"}
    words = {**call, "args": {"command": "echo said"}, **asking}
    *before, last = await asyncio.to_thread(asked, server.path, words, count=1 + pieces)
    assert [each["say"] for each in before] == ["output"] * pieces
    assert (last["say"], last["result"]["stdout"]) == ("result", "said\n")


async def test_garbage_ends_that_connection_alone(server: Server) -> None:
    def babble() -> bytes:
        with connected(server.path) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            return peer.recv(100)

    assert await asyncio.to_thread(babble) == b""
    assert (await server.command("true"))["success"]


async def test_a_settled_call_is_known_by_name_alone_once_it_is_journalled(server: Server) -> None:
    await server.client.call("c", "list_directory", {})
    await server.client.forget(("c",))
    again = await server.client.attach("c")
    assert again is not None
    assert again["error"] == "OUTCOME_UNKNOWN"
    hello, answer = await asyncio.to_thread(
        asked, server.path, {"do": "hello"}, {"do": "attach", "call_id": "c"}
    )
    assert hello["calls"] == []
    assert answer["result"]["error"] == "OUTCOME_UNKNOWN"
