"""The engine's end of a warden: asks it, and waits with a limit."""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from patchyard.clients.frame_claims import MAX_DEPTH, MOST_PORT
from patchyard.domain.codec import is_deeper
from patchyard.domain.errors import EnvironmentBroken
from patchyard.toolbox.wire import Decoder, WireError, encode

ANEW = "it is ended, and started anew"
ANSWER_S = 10.0
CONTROL_NAME = "control.sock"
MACHINE = "the virtual machine"
PIECE_BYTES = 64 * 1024

_numbers = itertools.count()


class Control:
    """One connection to a warden. Made by `control`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, what: str = MACHINE
    ) -> None:
        self._what = what
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder()
        self._came: list[Mapping[str, Any]] = []

    async def ask(
        self, message: Mapping[str, Any], *, timeout_s: float = ANSWER_S
    ) -> Mapping[str, Any]:
        """Return the answer. Raises EnvironmentBroken when there is none."""
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(encode(dict(message)))
                while not self._came:
                    data = await self._reader.read(PIECE_BYTES)
                    if not data:
                        raise EnvironmentBroken(f"{self._what} has ended")
                    self._came += self._decoder.feed(data)
        except (OSError, TimeoutError, WireError) as error:
            why = str(error) or f"nothing came within {timeout_s:g} s"
            text = f"{self._what} does not answer: {why}"
            raise EnvironmentBroken(text, hint=ANEW) from error
        answer = self._came.pop(0)
        if is_deeper(answer, MAX_DEPTH):
            raise EnvironmentBroken(f"{self._what} answers nonsense", hint=ANEW)
        if answer.get("say") == "ended":
            raise EnvironmentBroken(_why_ended(self._what, str(answer.get("said"))))
        return answer

    async def tell(self, what: Mapping[str, Any], *, timeout_s: float = ANSWER_S) -> None:
        """Tell the guest something. Raises EnvironmentBroken when it refuses, or is silent."""
        answer = await self.ask({"do": "tell", "what": dict(what)}, timeout_s=timeout_s)
        if answer.get("say") != "done":
            raise EnvironmentBroken(f"the guest refused: {str(answer.get('message'))[:300]}")

    def close(self) -> None:
        """Let go of it, and of what was asked for as long as it lives."""
        self._writer.close()


def _why_ended(what: str, said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"{what} ended: {' / '.join(lines[-3:])[-500:] or 'it said nothing'}"


async def open_control(folder: Path, what: str = MACHINE) -> Control:
    """Connect to the warden whose sockets lie in `folder`; `what` it stands beside, for errors.

    Raises EnvironmentBroken.
    """
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        async with asyncio.timeout(ANSWER_S):
            path = f"/proc/self/fd/{descriptor}/{CONTROL_NAME}"  # whatever the folder's length
            reader, writer = await asyncio.open_unix_connection(path)
    except (OSError, TimeoutError) as error:
        raise EnvironmentBroken(f"{what} is gone: {error}") from error
    finally:
        os.close(descriptor)
    return Control(reader, writer, what)


@contextlib.asynccontextmanager
async def control(folder: Path, what: str = MACHINE) -> AsyncIterator[Control]:
    """Yield a connection to the warden; see `open_control`. Raises EnvironmentBroken."""
    opened = await open_control(folder, what)
    try:
        yield opened
    finally:
        opened.close()


class Port(socket.socket):
    """The engine's listener for a port inside; with it that port is closed."""

    control: Control | None = None
    path: Path | None = None

    def close(self) -> None:
        """Close both."""
        if self.control is not None:
            self.control.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        super().close()


async def open_port(folder: Path, what: str = MACHINE) -> tuple[int, socket.socket]:
    """Return a loopback port inside, and the listener for it. Raises EnvironmentBroken."""
    listener = Port(socket.AF_UNIX, socket.SOCK_STREAM)
    path = folder / f"port-{os.getpid()}-{next(_numbers)}.sock"
    try:
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            listener.bind(f"/proc/self/fd/{descriptor}/{path.name}")
        finally:
            os.close(descriptor)
        listener.path = path
        listener.listen(128)
        listener.control = await open_control(folder, what)
        answer = await listener.control.ask({"do": "listen", "path": path.name})
        port = _port_of(answer)
    except BaseException:
        listener.close()
        raise
    return port, listener


def _port_of(answer: Mapping[str, Any]) -> int:
    port = answer.get("port")
    if type(port) is not int or not 0 < port <= MOST_PORT:  # true is no 1
        raise EnvironmentBroken(f"no port inside: {str(answer.get('message'))[:200]}")
    return port


__all__ = [
    "ANEW",
    "ANSWER_S",
    "CONTROL_NAME",
    "MACHINE",
    "Control",
    "Port",
    "control",
    "open_control",
    "open_port",
]
