"""Sockets that the inside holds too, or sends descriptors over: no call on them holds a loop up.

Whether a call waits is said by the open file description, which all who hold it share: what runs
inside can clear O_NONBLOCK, or take a connection between a poll and an accept. A close waits, too,
where it is the last one of a TCP socket with SO_LINGER, and so does a receive or a close that drops
such a socket unseen.
"""

import array
import asyncio
import contextlib
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

ACCEPT_PAUSE_MS = 100  # after an accept that failed
CLOSE_S = 0.05  # a close that is not over by then is left alone
ENDING_S = 1.0  # for an accept to end; one that does not is woken from outside of the loop
DESCRIPTORS = 253  # of one message, at most (SCM_MAX_FD, unix(7))
DESCRIPTORS_ROOM = socket.CMSG_SPACE(DESCRIPTORS * array.array("i").itemsize)  # bytes
CLOSED_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)  # an enum's own `|` takes longer than a small read
NO_LINGER = struct.pack("ii", 0, 0)
SO_PASSRIGHTS = 83  # since Linux 6.16: whether descriptors may come; asm-generic/socket.h


def close_aside(*descriptors: int, within_s: float = 0.0) -> None:
    """Close descriptors in a thread of their own, and wait `within_s` for it at most."""

    def close() -> None:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    _aside(close, "closing").join(within_s)


def _aside(work: Callable[[], None], name: str) -> threading.Thread:
    """Start a thread that the end of the process does not wait for."""
    thread = threading.Thread(target=work, name=f"patchyard-{name}", daemon=True)
    thread.start()
    return thread


class SharedSocket(socket.socket):
    """A socket whose close cannot hold its caller up."""

    def close(self) -> None:
        """Close it aside. Idempotent."""
        if self.fileno() >= 0:
            close_aside(self.detach(), within_s=CLOSE_S)


class ToolboxSocket(SharedSocket):
    """A Unix stream socket to what runs inside. Descriptors that come over it are refused."""

    def __init__(self, fileno: int | None = None) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fileno)
        with contextlib.suppress(OSError):  # an older kernel
            self.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return data. Raises ConnectionError where descriptors came with it."""
        data, descriptors = received(self, size, flags)
        _refuse(descriptors)
        return data

    def recv_into(self, buffer: "WriteableBuffer", nbytes: int = 0, flags: int = 0) -> int:
        """Write data into `buffer`; return how many bytes. Raises as `recv` does."""
        room = memoryview(buffer)[: nbytes or None]
        count, ancillary, _, _ = self.recvmsg_into([room], DESCRIPTORS_ROOM, flags | CLOSED_ON_EXEC)
        _refuse(_descriptors(ancillary))
        return count


def _refuse(descriptors: Sequence[int]) -> None:
    """Close descriptors that came. Raises ConnectionError where there are any."""
    if descriptors:
        close_aside(*descriptors)
        raise ConnectionError("descriptors came, and none were asked for")


def received(peer: socket.socket, size: int, flags: int = 0) -> tuple[bytes, list[int]]:
    """Return data and the descriptors that came with it: all, so that the kernel drops none."""
    data, ancillary, _, _ = peer.recvmsg(size, DESCRIPTORS_ROOM, flags | CLOSED_ON_EXEC)
    return data, _descriptors(ancillary)


def _descriptors(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    """Return all that came beside data."""
    if not ancillary:
        return []
    found = array.array("i")
    for level, kind, said in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(said[: len(said) - len(said) % found.itemsize])
    return list(found)


class Acceptor:
    """Accepts in a thread of its own, one connection each time it is asked. To be closed."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._wanted = threading.Semaphore(0)
        self._came: asyncio.Queue[socket.socket] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._is_closed = False
        self._waking, self._wake = os.pipe2(os.O_CLOEXEC)
        self._pause = select.poll()
        self._pause.register(self._waking, select.POLLIN)
        self._thread = _aside(self._run, "accepting")

    async def accept(self) -> socket.socket:
        """Return the next connection; it is of our own, and its options are."""
        self._wanted.release()
        return await self._came.get()

    async def close(self) -> None:
        """Accept no more, and close the listener, at once where nothing holds the thread up."""
        self._is_closed = True
        self._wanted.release()
        os.close(self._wake)  # which wakes the poll
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ENDING_S):
                    await self._ended.wait()
        finally:
            if self._ended.is_set():
                self._listener.close()
            else:
                _aside(self._end, "ending")
            while not self._came.empty():
                self._came.get_nowait().close()

    def _end(self) -> None:
        """Wake an accept that waits. Who shares the listener can let it listen again, for a time.

        Once the environment has ended, only this process holds it.
        """
        while self._thread.is_alive():
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._thread.join(ENDING_S)
        try:
            self._loop.call_soon_threadsafe(self._listener.close)
        except RuntimeError:  # the loop is over
            self._listener.close()

    def _run(self) -> None:
        self._listener.setblocking(False)
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._waking, select.POLLIN)
        while self._wanted.acquire() and not self._is_closed:
            connection = None
            while connection is None and not self._is_closed:
                poll.poll()
                connection = self._taken()
            self._tell(connection)
        os.close(self._waking)
        with contextlib.suppress(RuntimeError):  # the loop is over
            self._loop.call_soon_threadsafe(self._ended.set)

    def _taken(self) -> socket.socket | None:
        """Accept one, if there is one: it may have been taken since it was announced."""
        if self._is_closed:
            return None
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return None
        except OSError:  # no descriptor is left, the other side is gone, or it listens no more
            self._pause.poll(ACCEPT_PAUSE_MS)
            return None
        # Options come from the listener. This one would let our close wait for the other side.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        connection.setblocking(False)
        return connection

    def _tell(self, connection: socket.socket | None) -> None:
        if connection is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._put, connection)
        except RuntimeError:  # the loop is over
            connection.close()

    def _put(self, connection: socket.socket) -> None:
        if self._is_closed:
            connection.close()
        else:
            self._came.put_nowait(connection)


__all__ = [
    "ACCEPT_PAUSE_MS",
    "CLOSED_ON_EXEC",
    "CLOSE_S",
    "DESCRIPTORS",
    "DESCRIPTORS_ROOM",
    "ENDING_S",
    "NO_LINGER",
    "SO_PASSRIGHTS",
    "Acceptor",
    "SharedSocket",
    "ToolboxSocket",
    "close_aside",
    "received",
]
