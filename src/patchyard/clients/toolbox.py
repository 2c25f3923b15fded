"""The engine's side of the wire to a toolbox.

What comes back is a claim: frames are bounded, `frame_claims` checks their shapes, and whatever is
wrong ends the connection with EnvironmentBroken.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

from patchyard.clients.frame_claims import checked
from patchyard.clients.shared_sockets import SharedSocket, ToolboxSocket, close_aside, received
from patchyard.contracts.environment import OnOutput
from patchyard.domain.errors import EnvironmentBroken
from patchyard.engine.answers import heard
from patchyard.toolbox.wire import PROTOCOL, Decoder, WireError, encode

BACKLOG = 16
CLOSE_TIMEOUT_S = 1.0
CONNECT_TIMEOUT_S = 10.0
LISTEN_TIMEOUT_S = 10.0
NOWHERE = Path("/dev/null")  # of a toolbox whose socket is not on this machine
SOCKET_NAME = "toolbox.sock"


def bind_listener(directory: Path, name: str = SOCKET_NAME) -> tuple[socket.socket, Path]:
    """Return a listening Unix socket in `directory`, 0600, and its path, however long that is."""
    path = directory / name
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(_address(folder, path.name))
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener, path


def _address(folder: int, name: str) -> str:
    """A socket's address holds 108 bytes; a descriptor's name is always shorter."""
    return f"/proc/self/fd/{folder}/{name}"


Dial = Callable[[Callable[[], asyncio.Protocol]], Awaitable[asyncio.Protocol]]
"""Opens a stream to a toolbox, makes its protocol, connects the two and returns the protocol."""


class _Waiter:
    """Somebody who waits for one call's result."""

    __slots__ = ("future", "on_output")

    def __init__(self, on_output: OnOutput | None) -> None:
        self.future: asyncio.Future[Mapping[str, Any] | None] = (
            asyncio.get_running_loop().create_future()
        )
        self.on_output = on_output


class _Wire(asyncio.BufferedProtocol, asyncio.Protocol):
    """Sorts frames to those who wait for them.

    A socket's transport writes into the decoder's own room; others bring their data.
    """

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.waiters: dict[str, list[_Waiter]] = {}
        self.hello: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self.closed = asyncio.Event()
        self.reason = "the toolbox closed the connection"
        self._is_over = False
        self._decoder = Decoder()
        self._room: memoryview | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream always is
        self.transport = transport

    def get_buffer(self, _sizehint: int) -> memoryview:
        self._give_back()  # where nothing came after all
        self._room = self._decoder.room()
        return self._room

    def _give_back(self) -> None:
        """Let the decoder have its room, which has a fixed size meanwhile."""
        if self._room is not None:
            self._room.release()

    def buffer_updated(self, nbytes: int) -> None:
        self._give_back()
        self._take(lambda: self._decoder.came(nbytes))

    def data_received(self, data: bytes) -> None:
        self._take(lambda: self._decoder.feed(data))

    def _take(self, read: Callable[[], list[dict[str, Any]]]) -> None:
        if self._is_over:  # a transport may bring some more
            return
        try:
            for message in read():
                self._handle(message)
        except (WireError, ValueError) as error:
            self.fail(f"the toolbox sent nonsense: {error}")

    def _handle(self, message: dict[str, Any]) -> None:
        say = checked(message)
        if say == "hello" and not self.hello.done():
            self.hello.set_result(message)
        elif say == "error":
            self.fail(f"the toolbox refused a request: {message.get('message', '')[:500]}")
        elif say == "output":
            self._stream(message["call_id"], message["stream"], message["text"])
        elif say in {"result", "unknown"}:
            self._settle(message["call_id"], message["result"] if say == "result" else None)

    def _settle(self, call_id: str, result: Mapping[str, Any] | None) -> None:
        for waiter in self.waiters.pop(call_id, ()):
            if not waiter.future.done():
                waiter.future.set_result(result)

    def _stream(self, call_id: str, stream: str, text: str) -> None:
        for waiter in self.waiters.get(call_id, ()):
            if waiter.on_output is None or waiter.future.done():
                continue
            try:
                waiter.on_output(stream, text)
            except Exception as error:  # noqa: BLE001 - it is the caller's own, and goes there
                waiter.future.set_exception(error)

    def fail(self, reason: str) -> None:
        """End the connection; whoever waits is told why."""
        self.reason = reason
        self._let_go()
        if self.transport is not None:
            self.transport.abort()

    def _let_go(self) -> None:
        """Take nothing more; a frame that will not be whole takes no room."""
        self._is_over = True
        self._decoder = Decoder()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and self.reason.startswith("the toolbox closed"):
            self.reason = f"the connection to the toolbox broke: {exc}"
        waiting = [waiter.future for waiters in self.waiters.values() for waiter in waiters]
        self.waiters.clear()
        self._let_go()
        for future in waiting:
            if not future.done():
                future.set_exception(EnvironmentBroken(self.reason))
        if not self.hello.done():
            self.hello.set_exception(EnvironmentBroken(self.reason))
            self.hello.exception()  # whoever waits still gets it; nobody waiting is no warning
        self.closed.set()


class ToolboxClient:
    """One connection to one toolbox: `Toolbox` and `Listening`. Made by `connect`."""

    def __init__(self, wire: _Wire, path: Path, hello: Mapping[str, Any]) -> None:
        self._wire = wire
        self._path = path
        self.hello = hello  # what it says of itself: pid, python, calls

    @classmethod
    async def connect(
        cls, path: Path, *, variables: Mapping[str, str] | None = None, is_bounded: bool = True
    ) -> "ToolboxClient":
        """Connect to a socket and shake hands. Raises EnvironmentBroken without an answer.

        `variables` are those of commands from now on, PATH and HOME among them; None: as they were.
        Without `is_bounded` the caller bounds the time.
        """

        async def dial(protocol: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
            folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return await _dialled(protocol, _address(folder, path.name))
            finally:
                os.close(folder)

        return await cls.over(dial, path, variables=variables, is_bounded=is_bounded)

    @classmethod
    async def over(
        cls,
        dial: Dial,
        path: Path = NOWHERE,
        *,
        variables: Mapping[str, str] | None = None,
        is_bounded: bool = True,
    ) -> "ToolboxClient":
        """Connect as `dial` does, and shake hands; see `connect`. Raises EnvironmentBroken."""
        wire: _Wire | None = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S if is_bounded else None):
                wire = cast("_Wire", await dial(_Wire))
                if variables is not None:  # before the hello, whose answer says that they are there
                    cls._send(wire, {"do": "set_variables", "variables": dict(variables)})
                cls._send(wire, {"do": "hello"})
                hello = await asyncio.shield(wire.hello)
            _require_same_protocol(hello)
        except (OSError, TimeoutError, WireError) as error:
            cls._abort(wire)
            reason = str(error) or "it took too long"
            raise EnvironmentBroken(f"no toolbox answers: {reason}") from error
        except BaseException:
            cls._abort(wire)
            raise
        return cls(wire, path, hello)

    @staticmethod
    def _abort(wire: _Wire | None) -> None:
        if wire is not None and wire.transport is not None:
            wire.transport.abort()

    @staticmethod
    def _send(wire: _Wire, message: dict[str, Any]) -> None:
        if wire.transport is None or wire.transport.is_closing():
            raise EnvironmentBroken(wire.reason)
        wire.transport.write(encode(message))

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        """Run `op` once under `call_id` and return its result; see the contract."""
        message = {"do": "call", "call_id": call_id, "op": op, "args": dict(args)}
        result = await self._ask(call_id, message, on_output)
        if result is None:
            raise EnvironmentBroken("the toolbox does not know a call just sent")
        return result

    async def attach(
        self, call_id: str, *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any] | None:
        """Wait for the result of an earlier call; None when the toolbox does not know it."""
        return await self._ask(call_id, {"do": "attach", "call_id": call_id}, on_output)

    async def _ask(
        self, call_id: str, message: dict[str, Any], on_output: OnOutput | None
    ) -> Mapping[str, Any] | None:
        waiter = _Waiter(on_output)
        try:
            self._send(self._wire, {**message, "is_listening": on_output is not None})
        except WireError as error:
            return {"success": False, "error": "VALIDATION_ERROR", "message": str(error)}
        waiters = self._wire.waiters.setdefault(call_id, [])
        waiters.append(waiter)
        try:
            result = await waiter.future
        finally:
            if waiter in waiters:
                waiters.remove(waiter)
            if not waiters and self._wire.waiters.get(call_id) is waiters:
                del self._wire.waiters[call_id]
        heard()
        return result

    async def cancel(self, call_id: str) -> None:
        """Kill the call's whole process tree; its result then says CANCELLED."""
        self._send(self._wire, {"do": "cancel", "call_id": call_id})

    async def forget(self, call_ids: tuple[str, ...]) -> None:
        """Say that these results are journalled; the toolbox may drop them."""
        self._send(self._wire, {"do": "forget", "call_ids": list(call_ids)})

    async def listen(self) -> tuple[int, socket.socket]:
        """Return a loopback port inside and its listening socket, now owned by the caller."""
        return await asyncio.to_thread(_listen, self._path)

    async def end(self) -> None:
        """Tell the toolbox to end with its whole tree, and wait until the connection is gone."""
        self._send(self._wire, {"do": "end"})
        await self._wire.closed.wait()

    async def close(self) -> None:
        """Drop the connection; the toolbox lives on for its grace time."""
        if self._wire.transport is not None:
            self._wire.reason = "this connection was closed"
            self._wire.transport.close()
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._wire.closed.wait()
            except TimeoutError:  # it is frozen, and something still waits to be sent
                self._wire.transport.abort()
                await self._wire.closed.wait()


def _require_same_protocol(hello: Mapping[str, Any]) -> None:
    if hello.get("protocol") != PROTOCOL:
        raise EnvironmentBroken(
            f"the toolbox speaks protocol {hello.get('protocol')!r}, this engine {PROTOCOL}",
            hint="it was started by another version; end it and start a new one",
        )


async def _dialled(protocol: Callable[[], asyncio.Protocol], address: str) -> asyncio.Protocol:
    loop, peer = asyncio.get_running_loop(), ToolboxSocket()
    try:
        peer.setblocking(False)
        await loop.sock_connect(peer, address)
        return (await loop.create_unix_connection(protocol, sock=peer))[1]
    except BaseException:
        peer.close()
        raise


def _listen(path: Path) -> tuple[int, socket.socket]:
    """Ask for a listener on a connection of its own: asyncio drops descriptors that travel."""
    try:
        with SharedSocket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(LISTEN_TIMEOUT_S)
            folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                peer.connect(_address(folder, path.name))
            finally:
                os.close(folder)
            peer.sendall(encode({"do": "listen"}))
            return receive_listener(peer)
    except (OSError, ValueError, WireError) as error:
        raise EnvironmentBroken(f"the toolbox gave no listening socket: {error}") from error


def receive_listener(peer: socket.socket) -> tuple[int, socket.socket]:
    """Return what a toolbox answers when it is asked to listen. Raises WireError; may wait."""
    data, descriptors = received(peer, 64 * 1024)
    try:
        messages = Decoder().feed(data)
        said = messages[0] if messages else {}
        if checked(said) != "listening" or len(descriptors) != 1:
            raise WireError(str(said.get("message") or "no descriptor came")[:500])
        port: int = said["port"]
        listener = SharedSocket(fileno=descriptors[0])
        descriptors.clear()
    finally:
        close_aside(*descriptors)
    if not _is_listening(listener):
        listener.close()
        raise WireError("what came is no listening socket")
    listener.set_inheritable(False)
    return port, listener


def _is_listening(found: socket.socket) -> bool:
    shape = (found.family, found.type, found.proto)
    is_tcp = shape == (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    return is_tcp and bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


__all__ = [
    "BACKLOG",
    "CLOSE_TIMEOUT_S",
    "CONNECT_TIMEOUT_S",
    "LISTEN_TIMEOUT_S",
    "NOWHERE",
    "SOCKET_NAME",
    "Dial",
    "ToolboxClient",
    "bind_listener",
    "receive_listener",
]
