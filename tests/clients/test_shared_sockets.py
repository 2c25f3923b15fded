"""Sockets and pipes that hostile code inside holds too: none of them holds the engine's loop up.

A call that waits would wait for an hour: a thread beside the loop sees that and lets it go on.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from patchyard.clients import shared_sockets
from patchyard.clients.berths import read_child_pid
from patchyard.clients.gateway_server import accepting
from patchyard.clients.passing import Passing
from patchyard.clients.shared_sockets import Acceptor, SharedSocket, ToolboxSocket
from patchyard.clients.toolbox import ToolboxClient, bind_listener, receive_listener
from patchyard.clients.vitals import answers
from patchyard.domain.errors import EnvironmentBroken
from patchyard.toolbox.wire import PROTOCOL, WireError, encode
from toolboxes import comes_true

pytestmark = pytest.mark.anyio

HELD_S = 60.0
HOUR = struct.pack("ii", 1, 3600)  # SO_LINGER
HELLO = encode({"say": "hello", "protocol": PROTOCOL, "calls": []})
LISTENING = encode({"say": "listening", "port": 1})

THIEF = """
import fcntl, os, socket, sys, threading, time
peer = socket.socket(fileno=int(sys.argv[1]))
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
socket.send_fds(peer, [b"L"], [listener.fileno()])

def block():
    while True:
        flags = fcntl.fcntl(listener, fcntl.F_GETFL)
        fcntl.fcntl(listener, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)
        if is_relistening:
            listener.listen(64)

def steal():
    global stolen
    while True:
        try:
            fcntl.fcntl(listener, fcntl.F_SETFL, os.O_RDWR)
            listener.accept()[0].close()
            stolen += 1
        except OSError:
            pass

stolen, is_relistening = 0, False
for work in (block, steal):
    threading.Thread(target=work, daemon=True).start()
while stolen < 100:
    try:
        socket.create_connection(listener.getsockname(), timeout=1).close()
    except OSError:
        pass
is_relistening = True
print("stolen", flush=True)
time.sleep(3600)
"""
"""Takes connections between the engine's poll and its accept, and makes that accept wait."""


class Sticky:
    """Ends of connections that nothing is read from: a close of the others waits for its time."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._unread: list[socket.socket] = [self._server]

    def made(self, started: socket.socket | None = None) -> socket.socket:
        """Return a connected socket that is full, and whose last close would take an hour."""
        peer = started or socket.socket()
        with contextlib.suppress(BlockingIOError):
            peer.connect(self._server.getsockname())
        self._unread.append(self._server.accept()[0])
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HOUR)
        fill(peer)
        return peer

    def close(self) -> None:
        for each in self._unread:
            each.close()


def fill(peer: socket.socket) -> None:
    peer.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            peer.send(bytes(65536))


def closings() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("patchyard-")]


@contextmanager
def unheld(release: Callable[[], object]) -> Iterator[None]:
    """Fail where the loop does not go on by itself; `release` lets it."""
    loop = asyncio.get_running_loop()
    over, answered, held = threading.Event(), threading.Event(), threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            answered.clear()
            loop.call_soon_threadsafe(answered.set)
            if not (over.is_set() or answered.wait(HELD_S)):
                held.set()
                release()
                return

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        over.set()
        answered.set()
        watching.join()
    assert not held.is_set()


@pytest.fixture
def sticky() -> Iterator[Sticky]:
    made = Sticky()
    yield made
    made.close()
    for thread in closings():
        thread.join(HELD_S)
        assert not thread.is_alive(), thread


def sent(peer: socket.socket, said: bytes, given: socket.socket) -> None:
    """Send a descriptor, and keep none: where it is refused, too."""
    try:
        socket.send_fds(peer, [said], [given.fileno()])
    except PermissionError:  # so that it is closed here, for good
        given.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))
    given.close()


@asynccontextmanager
async def taken_over(
    folder: Path, act: Callable[[socket.socket, bytes], Awaitable[None]]
) -> AsyncIterator[Path]:
    """Serve as a toolbox whose answer to each request is what `act` does; yield its path."""
    listener, path = bind_listener(folder)
    listener.setblocking(False)
    loop = asyncio.get_running_loop()

    async def serve(peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            while asked := await loop.sock_recv(peer, 4096):
                await act(peer, asked)

    async def admit() -> None:
        async with asyncio.TaskGroup() as serving:
            while True:
                peer, _ = await loop.sock_accept(listener)
                serving.create_task(serve(peer))

    admitting = asyncio.create_task(admit())
    try:
        yield path
    finally:
        admitting.cancel()
        await asyncio.wait([admitting])
        listener.close()


@pytest.fixture(params=[83, 9999], ids=["refused by the kernel", "refused by us"])
def passing_rights(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels since 6.16 can refuse descriptors themselves."""
    monkeypatch.setattr(shared_sockets, "SO_PASSRIGHTS", request.param)


async def ignore(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def test_a_listener_that_is_made_to_block_and_stolen_from_holds_no_loop_up() -> None:
    ours, theirs = socket.socketpair()
    thief = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", THIEF, str(theirs.fileno())),
        pass_fds=[theirs.fileno()],
        stdout=asyncio.subprocess.PIPE,
    )
    with ours, theirs:
        _, (descriptor,), _, _ = socket.recv_fds(ours, 1, 1)
    assert thief.stdout is not None
    with unheld(thief.kill):
        async with accepting(SharedSocket(fileno=descriptor), ignore):
            assert await thief.stdout.readline() == b"stolen\n"
        with contextlib.suppress(ProcessLookupError):
            thief.kill()
    await thief.wait()
    while left := closings():  # nothing can make it listen again; who ends may let another close
        for thread in left:
            await asyncio.to_thread(thread.join, HELD_S)
            assert not thread.is_alive()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


async def test_an_accept_that_waits_ends_with_who_shares_the_listener() -> None:
    listener = SharedSocket(fileno=socket.create_server(("127.0.0.1", 0)).detach())
    acceptor = Acceptor(listener)
    waiting = asyncio.create_task(acceptor.accept())
    await asyncio.sleep(0)
    fcntl.fcntl(listener, fcntl.F_SETFL, os.O_RDWR)
    with socket.create_connection(listener.getsockname()) as peer:
        connection = await waiting
        assert connection.getpeername() == peer.getsockname()
        assert not connection.getblocking()
        connection.close()
    await acceptor.close()
    await comes_true(lambda: listener.fileno() == -1)


async def test_a_connection_that_lingers_as_its_listener_said_is_closed_at_once() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HOUR)
    served = asyncio.Event()

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw = writer.get_extra_info("socket")
        with socket.socket(fileno=os.dup(raw.fileno())) as same:
            fill(same)
        served.set()

    with socket.create_connection(listener.getsockname()) as client, unheld(client.close):
        async with accepting(listener, serve):
            await served.wait()


@pytest.mark.usefixtures("passing_rights")
async def test_a_descriptor_that_comes_with_an_answer_holds_no_loop_up(
    tmp_path: Path, sticky: Sticky
) -> None:
    async def act(peer: socket.socket, _asked: bytes) -> None:
        sent(peer, HELLO, sticky.made())
        peer.close()

    async with taken_over(tmp_path, act) as path:
        with unheld(sticky.close), pytest.raises(EnvironmentBroken):
            await ToolboxClient.connect(path)


@pytest.mark.usefixtures("passing_rights")
async def test_descriptors_that_wait_on_a_connection_hold_up_no_close(
    tmp_path: Path, sticky: Sticky
) -> None:
    peers = []

    async def act(peer: socket.socket, _asked: bytes) -> None:
        peers.append(peer)
        await asyncio.get_running_loop().sock_sendall(peer, HELLO)

    async with taken_over(tmp_path, act) as path:
        client = await ToolboxClient.connect(path)
        with unheld(sticky.close):
            sent(peers[0], HELLO, sticky.made())
            await client.close()
            await asyncio.sleep(0)  # the connection is closed in a callback


async def test_a_descriptor_in_place_of_a_listener_is_closed_and_holds_nothing_up(
    sticky: Sticky,
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, unheld(sticky.close):
        sent(theirs, LISTENING, sticky.made())
        with pytest.raises(WireError, match="no listening socket"):
            receive_listener(ours)


async def test_a_listener_that_became_a_connection_holds_no_close_up(sticky: Sticky) -> None:
    theirs = socket.create_server(("127.0.0.1", 0))
    ours = SharedSocket(fileno=os.dup(theirs.fileno()))
    with unheld(sticky.close):
        async with accepting(ours, ignore):
            theirs.shutdown(socket.SHUT_RDWR)
            sticky.made(theirs).close()
    await comes_true(lambda: ours.fileno() == -1)


async def test_who_asks_for_a_socket_and_sends_one_holds_no_loop_up(
    tmp_path: Path, sticky: Sticky
) -> None:
    with socket.socket() as given, socket.socket(socket.AF_UNIX) as asking:
        passing = Passing(tmp_path, given)
        asking.connect(str(passing.path))
        sent(asking, b"x", sticky.made())
        with unheld(sticky.close):
            await passing.passed()
        _, (descriptor,), _, _ = socket.recv_fds(asking, 1, 1)
        os.close(descriptor)


def test_whether_a_toolbox_answers_is_asked_by_a_socket_that_takes_no_descriptors(
    tmp_path: Path,
) -> None:
    listener, path = bind_listener(tmp_path)
    with listener:
        assert answers(path)
    assert not answers(path)
    with ToolboxSocket() as peer:
        assert peer.family == socket.AF_UNIX


async def test_a_report_that_others_read_too_holds_no_loop_up() -> None:
    reading, writing = os.pipe()
    loop, stolen = asyncio.get_running_loop(), asyncio.Event()
    same = os.dup(reading)

    def steal() -> None:
        """Take it in the same turn of the loop that tells the engine that it is there."""
        os.read(same, 4096)
        loop.remove_reader(same)
        stolen.set()

    with unheld(lambda: os.write(writing, b"x")):
        loop.add_reader(same, steal)
        pid = asyncio.create_task(read_child_pid(reading))
        await asyncio.sleep(0)
        os.write(writing, b"x")
        await stolen.wait()
        await asyncio.sleep(0)
        os.write(writing, b'"child-pid": 77\n}')
        assert await pid == 77
    for descriptor in (reading, same, writing):
        os.close(descriptor)


@pytest.mark.anyio
async def test_one_who_asks_for_a_descriptor_and_goes_is_a_broken_environment(
    tmp_path: Path,
) -> None:
    with socket.socket() as given:
        passing = Passing(tmp_path, given)
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(passing.path))
        with pytest.raises(EnvironmentBroken, match="went away"):
            await passing.passed()
        passing.close()
