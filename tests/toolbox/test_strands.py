"""Many connections over one stream, both ends of it in one loop here."""

import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from patchyard.toolbox import ports, strands
from patchyard.toolbox.loop import Loop
from patchyard.toolbox.sealing import Seal
from patchyard.toolbox.strands import HEADER, WINDOW_BYTES, Strands
from patchyard.toolbox.trunks import Trunk

LARGE = 3 * WINDOW_BYTES


@dataclass
class End:
    """One end of the stream, and what became of it."""

    heard: list[dict[str, Any]] = field(default_factory=list)
    opened: list[tuple[str, socket.socket]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    refuses: bool = False
    strands: Strands = field(init=False)  # made with the loop

    def answer(self, name: str) -> socket.socket | None:
        if self.refuses:
            return None
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self.opened.append((name, theirs))
        return ours


@dataclass
class Wire:
    """Both ends."""

    loop: Loop
    near: End
    far: End
    streams: tuple[socket.socket, socket.socket]

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(20_000):
            if condition():
                return
            self.loop.later(0.01, lambda: None)
            self.loop.turn()
        raise AssertionError("it never came to that")

    def connect(self, name: str = "toolbox") -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.near.strands.open(name, theirs)
        return ours

    def received(self, peer: socket.socket, count: int) -> bytes:
        came = bytearray()

        def is_all() -> bool:
            with contextlib.suppress(BlockingIOError):
                came.extend(peer.recv(1 << 20))
            return len(came) >= count

        self.until(is_all)
        return bytes(came)

    def ended(self, peer: socket.socket) -> bool:
        try:
            return peer.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True


@pytest.fixture(params=["one descriptor", "two"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    loop = Loop()
    streams = socket.socketpair()
    twos = [os.dup(stream.fileno()) for stream in streams] if request.param == "two" else [None] * 2
    near, far = End(), End()
    for end, stream, two, is_first in (
        (near, streams[0], twos[0], True),
        (far, streams[1], twos[1], False),
    ):
        end.strands = Strands(
            loop,
            Trunk(stream.fileno(), two),
            is_first=is_first,
            answer=end.answer,
            hear=end.heard.append,
            broken=end.broken.append,
        )
    yield Wire(loop, near, far, streams)
    for end in (near, far):
        end.strands.close()
        for _, peer in end.opened:
            peer.close()
    for stream in streams:
        stream.close()
    for two in twos:
        if two is not None:
            os.close(two)
    loop.close()


def test_a_connection_carries_bytes_both_ways(wire: Wire) -> None:
    with wire.connect("gate") as ours:
        wire.until(lambda: bool(wire.far.opened))
        name, theirs = wire.far.opened[0]
        assert name == "gate"
        ours.send(b"question")
        assert wire.received(theirs, 8) == b"question"
        theirs.send(b"answer")
        assert wire.received(ours, 6) == b"answer"
        assert (wire.near.strands.count, wire.far.strands.count) == (1, 0)


def test_what_one_end_says_the_other_hears_in_order(wire: Wire) -> None:
    for number in range(3):
        wire.near.strands.say({"do": number})
    wire.until(lambda: len(wire.far.heard) == 3)
    assert [message["do"] for message in wire.far.heard] == [0, 1, 2]


def test_a_large_amount_comes_whole(wire: Wire) -> None:
    data = bytes(range(256)) * (LARGE // 256)
    with wire.connect() as ours:
        wire.until(lambda: bool(wire.far.opened))
        theirs = wire.far.opened[0][1]
        left, came = memoryview(data), bytearray()

        def is_all() -> bool:
            nonlocal left
            with contextlib.suppress(BlockingIOError):
                left = left[ours.send(left) :] if left else left
            with contextlib.suppress(BlockingIOError):
                came.extend(theirs.recv(1 << 20))
            return len(came) == len(data)

        wire.until(is_all)
        assert bytes(came) == data


def test_a_connection_that_nobody_reads_holds_up_no_other(wire: Wire) -> None:
    with wire.connect() as flooding, wire.connect() as other:
        wire.until(lambda: len(wire.far.opened) == 2)
        stuck = 0
        while stuck < 5:
            try:
                flooding.send(b"x" * 65536)
                stuck = 0
            except BlockingIOError:
                stuck += 1
            wire.loop.later(0, lambda: None)
            wire.loop.turn()
        other.send(b"through")
        assert wire.received(wire.far.opened[1][1], 7) == b"through"


def test_the_end_of_a_connection_comes_after_all_its_bytes(wire: Wire) -> None:
    ours = wire.connect()
    wire.until(lambda: bool(wire.far.opened))
    theirs = wire.far.opened[0][1]
    ours.send(b"last words")
    ours.close()
    assert wire.received(theirs, 10) == b"last words"
    wire.until(lambda: wire.ended(theirs))
    wire.until(lambda: wire.near.strands.count == 0)


def test_a_reader_that_left_ends_the_connection_of_who_writes(wire: Wire) -> None:
    with wire.connect() as ours:
        wire.until(lambda: bool(wire.far.opened))
        wire.far.opened[0][1].close()
        wire.until(lambda: wire.ended(ours))


def test_a_reader_that_leaves_amid_a_flood_ends_the_connection_too(wire: Wire) -> None:
    with wire.connect() as ours:
        wire.until(lambda: bool(wire.far.opened))
        theirs = wire.far.opened[0][1]

        def is_over() -> bool:
            try:
                ours.send(b"x" * 65536)
            except BlockingIOError:
                theirs.close()
            except OSError:
                return True
            return False

        wire.until(is_over)


def test_a_refused_connection_is_closed(wire: Wire) -> None:
    wire.far.refuses = True
    with wire.connect() as ours:
        wire.until(lambda: wire.ended(ours))
    assert wire.far.opened == []


def test_the_end_of_the_stream_ends_all_connections_and_is_told_once(wire: Wire) -> None:
    with wire.connect() as ours:
        wire.until(lambda: bool(wire.far.opened))
        wire.streams[1].shutdown(socket.SHUT_RDWR)
        wire.until(lambda: bool(wire.near.broken))
        assert wire.ended(ours)
    wire.near.strands.say({"do": "nothing"})
    assert len(wire.near.broken) == 1


def test_changes_are_told(wire: Wire) -> None:
    counts: list[int] = []
    wire.near.strands.changed = lambda: counts.append(wire.near.strands.count)
    ours = wire.connect()
    ours.close()
    wire.until(lambda: len(counts) == 2)
    assert counts == [1, 0]


TALK = 4
BAD = {
    "a frame that is too long": HEADER.pack(2, 1, strands.PIECE_BYTES + 1),
    "a frame of no kind": HEADER.pack(2, 9, 0),
    "talk that is no JSON": HEADER.pack(0, TALK, 1) + b"{",
    "talk that is no object": HEADER.pack(0, TALK, 2) + b"[]",
    "talk that is nested without an end": HEADER.pack(0, TALK, 60_000) + b"[" * 60_000,
    "a connection that is ours": HEADER.pack(1, 0, 1) + b"x",
    "a name that is none": HEADER.pack(2, 0, 1) + b"\xff",
    "room of no size": HEADER.pack(1, 3, 1) + b"x",
    "more room than there is": HEADER.pack(1, 3, 4) + struct.pack(">I", 1),
    "more than its room": (HEADER.pack(1, 1, 65536) + b"x" * 65536) * 40,
}


@pytest.mark.parametrize("frame", BAD.values(), ids=BAD)
def test_nonsense_ends_the_stream_and_nothing_else(frame: bytes) -> None:
    loop = Loop()
    ours, theirs = socket.socketpair()
    end = End()
    end.strands = Strands(
        loop,
        Trunk(ours.fileno()),
        is_first=True,
        answer=end.answer,
        hear=end.heard.append,
        broken=end.broken.append,
    )
    one, other = socket.socketpair()
    with ours, theirs, one, other:
        end.strands.open("toolbox", one)
        theirs.setblocking(False)
        left = memoryview(frame)
        for _ in range(1000):
            if end.broken:
                break
            with contextlib.suppress(BlockingIOError):
                left = left[theirs.send(left) :] if left else left
            loop.later(0, lambda: None)
            loop.turn()
        assert len(end.broken) == 1
    loop.close()


def test_a_frame_that_does_not_end_ends_the_stream(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strands, "WHOLE_S", 0.0)
    wire.streams[1].send(HEADER.pack(1, 1, 8) + b"half")
    wire.until(lambda: bool(wire.near.broken))
    assert wire.near.broken == ["nonsense came: a frame that does not end"]


@pytest.mark.parametrize("harm", ["forged", "again", "turned back", "cut", None])
def test_a_sealed_stream_takes_only_what_the_other_end_sent(harm: str | None) -> None:
    ours, theirs = (Seal(bytes(32), is_first=is_first) for is_first in (True, False))
    frames = [(b"head", data, theirs.mark(b"head", data)) for data in (b"one", b"two")]
    if harm == "forged":
        frames[0] = (b"head", b"won", frames[0][2])
    elif harm == "again":
        frames[1] = frames[0]
    elif harm == "turned back":
        frames[1] = (b"head", b"two", ours.mark(b"head", b"two"))
    elif harm == "cut":
        del frames[0]
    assert all(ours.fits(*frame) for frame in frames) == (harm is None)


def test_a_frame_for_a_connection_that_we_ended_is_dropped(wire: Wire) -> None:
    wire.far.strands.send(77, 1, b"late")
    wire.far.strands.say({"do": "more"})
    wire.until(lambda: bool(wire.near.heard))
    assert wire.near.broken == []


def test_only_so_many_connections_are_open_at_a_time(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strands, "MOST", 1)
    with wire.connect(), wire.connect() as second:
        wire.until(lambda: wire.ended(second))
    assert len(wire.far.opened) == 1


def test_who_asks_for_ever_and_takes_no_answer_ends_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each connection to nothing is answered; a warden would keep the answers for ever."""
    monkeypatch.setattr(strands, "MOST_PENDING_BYTES", 64 * 1024)
    loop, end = Loop(), End(refuses=True)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        made = Strands(
            loop,
            Trunk(ours.fileno()),
            is_first=True,
            answer=end.answer,
            hear=end.heard.append,
            broken=end.broken.append,
        )
        asked = b"".join(HEADER.pack(2 * n, 0, 1) + b"x" for n in range(1, 2000))
        for _ in range(1000):
            with contextlib.suppress(BlockingIOError):
                theirs.send(asked)
            loop.later(0.001, lambda: None)
            loop.turn()
            if end.broken:
                break
        made.close()
    assert end.broken == ["nonsense came: it does not take what it asks for"]


def test_a_port_inside_that_cannot_be_opened_is_said_and_other_words_are_not_for_ports(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses() -> socket.socket:
        raise OSError("too many files")

    monkeypatch.setattr(ports, "open_listener", refuses)
    inside = ports.Ports(wire.loop, wire.near.strands)
    assert inside.hear({"do": "listen"})
    assert inside.hear({"do": "unlisten", "port": 4000})
    assert not inside.hear({"do": "ping"})
    wire.until(lambda: bool(wire.far.heard))
    assert wire.far.heard == [{"say": "listening", "port": 0, "message": "too many files"}]
