"""One engine's connection, against peers that do not behave."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from patchyard.toolbox import connection as connections
from patchyard.toolbox.connection import Connection
from patchyard.toolbox.loop import READ, Loop
from patchyard.toolbox.wire import HEADER, Decoder, encode


class Peers:
    """A connection of the toolbox and the engine's end of it."""

    def __init__(self) -> None:
        self.loop = Loop()
        ours, self.engine = socket.socketpair()
        ours.setblocking(False)
        self.heard: list[dict[str, Any]] = []
        self.closed: list[Connection] = []
        self.connection = Connection(ours, self.loop, self.on_message, self.closed.append)

    def on_message(self, _connection: Connection, message: dict[str, Any]) -> None:
        self.heard.append(message)
        if message.get("do") == "leave":
            self.connection.close()

    def take(self, size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            self.loop.later(0, lambda: None)
            self.loop.turn()
            self.engine.setblocking(False)
            try:
                taken += self.engine.recv(size - len(taken))
            except BlockingIOError:
                continue
        return taken


@pytest.fixture
def peers() -> Iterator[Peers]:
    made = Peers()
    yield made
    made.connection.close()
    made.engine.close()
    made.loop.close()


def test_garbage_ends_the_connection(peers: Peers) -> None:
    peers.engine.sendall(HEADER.pack(3) + b"no!")
    peers.loop.turn()
    assert peers.closed == [peers.connection]
    assert peers.heard == []


def test_what_comes_after_the_end_is_not_heard(peers: Peers) -> None:
    peers.engine.sendall(encode({"do": "leave"}) + encode({"do": "late"}))
    peers.loop.turn()
    assert peers.heard == [{"do": "leave"}]
    peers.connection.send(b"nobody reads this")
    peers.connection.close()
    assert peers.closed == [peers.connection]


def test_a_peer_that_leaves_with_answers_unread_is_gone(peers: Peers) -> None:
    peers.connection.send(encode({"say": "hello"}))
    peers.engine.close()
    peers.loop.turn()  # the kernel says that the connection was reset, not that it ended
    assert peers.closed == [peers.connection]


def test_a_peer_that_reads_late_gets_everything_in_order(peers: Peers) -> None:
    frames = [encode({"n": n, "text": "x" * 100_000}) for n in range(20)]
    for frame in frames:
        peers.connection.send(frame)
    whole = b"".join(frames)
    got = Decoder().feed(peers.take(len(whole)))
    assert [message["n"] for message in got] == list(range(20))
    peers.engine.setblocking(True)
    peers.engine.sendall(encode({"do": "hello"}))
    peers.loop.turn()
    assert peers.heard == [{"do": "hello"}]


def test_output_is_not_streamed_to_a_peer_that_is_far_behind(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STREAMED_BYTES", 1000)
    sent = encode({"text": "x" * 1_000_000})
    peers.connection.send(sent)
    peers.connection.on_output("c", "stdout", "missed")
    peers.connection.on_result(encode({"say": "result"}))
    expected = sent + encode({"say": "result"})
    assert peers.take(len(expected)) == expected


def test_a_peer_that_never_reads_is_given_up(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PENDING_BYTES", 1_000_000)
    peers.connection.send(b"x" * 3_000_000)
    assert peers.closed == [peers.connection]


def test_a_descriptor_is_not_sent_while_frames_wait(peers: Peers) -> None:
    peers.connection.send(b"x" * 3_000_000)
    with pytest.raises(BlockingIOError, match="wait"):
        peers.connection.send_descriptor(encode({"say": "listening"}), 0)


def test_nothing_to_read_is_no_end(peers: Peers) -> None:
    peers.connection._on_ready(READ)
    assert peers.closed == []
