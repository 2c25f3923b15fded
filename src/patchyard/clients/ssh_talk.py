"""Speaks with a host over one SSH connection: lays our code down there, and opens streams to it.

The one channel beside commands is a stream to our own socket on that host, opened from here. Where
the host forbids even that, a command there passes the bytes on.
"""

import asyncio
import base64
import contextlib
import functools
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from patchyard.clients.frame_claims import MAX_DEPTH
from patchyard.clients.reattaching import Gone
from patchyard.clients.ssh import SAID_CHARS, Cut, library, one_line
from patchyard.clients.toolbox import Dial
from patchyard.clients.toolbox_options import TOOLBOX_FOLDER
from patchyard.domain.codec import is_deeper
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.toolbox.wire import loaded

if TYPE_CHECKING:
    import asyncssh

ANSWER_S = 60.0  # of one request: 200 KB of code may have to go over a slow line
LONGEST_LINE = 1024 * 1024
TOO_OLD, NOT_THERE, NOT_ALLOWED = 96, 127, 126
PROGRAM = (
    "import sys;sys.version_info<(3,8) and sys.exit(96);"
    "import base64;exec(base64.b64decode(sys.stdin.buffer.readline()))"
)
COMMAND = f"exec python3 -I -S -B -c '{PROGRAM}'"  # the same words in sh, csh and fish
AS_IT_IS: Mapping[str, Any] = {
    "encoding": None,
    "env": (),
    "send_env": (),
    "request_pty": False,
    "x11_forwarding": False,
}
"""Of a command: bytes, no terminal, and nothing of this machine's sent along."""
PYTHON_HINT = "install Python 3.8 or newer there, such that `python3` finds it"


@functools.cache
def code() -> tuple[str, Mapping[str, str]]:
    """Return the toolbox's code, by its hash and as files in base 64."""
    digest = hashlib.sha256()
    files = {}
    for path in sorted(TOOLBOX_FOLDER.glob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
        files[path.name] = base64.b64encode(content).decode("ascii")
    return digest.hexdigest()[:32], files


class Conversation:
    """One process of ours on the host, for as long as there is something to ask."""

    def __init__(
        self, process: "asyncssh.SSHClientProcess[bytes]", host: str, *, way: str = ""
    ) -> None:
        """Take what runs there; `way` is the command by which a person goes to the host."""
        self._process = process
        self._host = host
        self._way = way or f"ssh {host}"
        self._token = os.urandom(8).hex()

    async def ask(self, do: str, **fields: Any) -> Mapping[str, Any]:
        """Return the answer to one request.

        Raises EnvironmentUnavailable for what that host refuses, Cut when the connection breaks,
        EnvironmentBroken when it falls silent.
        """
        request = {"do": do, "token": self._token, "hash": code()[0], **fields}
        try:
            async with asyncio.timeout(ANSWER_S):
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                await self._process.stdin.drain()
                answer = await self._answer()
        except (OSError, library().Error, TimeoutError) as error:
            if isinstance(error, BrokenPipeError) and self._process.exit_status is not None:
                raise await self._ended() from error
            silent = EnvironmentBroken if isinstance(error, TimeoutError) else Cut
            why = one_line(error) or f"nothing came within {ANSWER_S:g} s"
            raise silent(f"{self._host} fell silent: {why}") from error
        if "lost" in answer:
            raise EnvironmentBroken(f"{self._host}: {one_line(answer['lost'])}")
        if "refused" in answer:
            raise EnvironmentUnavailable(
                f"{self._host} cannot serve an environment: {one_line(answer['refused'])}",
                hint=f"look on that host what is wrong: `{self._way}`",
            )
        return answer

    async def _answer(self) -> Mapping[str, Any]:
        """Read up to the line that answers; the user's shell may say things before it."""
        wanted = f"{self._token} ".encode()
        while line := await self._line():
            if line.startswith(wanted):
                return _parsed(line[len(wanted) :])
        raise await self._ended()

    async def _line(self) -> bytes:
        try:
            return await self._process.stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return b""

    async def _ended(self) -> Exception:
        """Return why our program does not run."""
        said = one_line((await self._process.stderr.read(SAID_CHARS)).decode("utf-8", "replace"))
        await self._process.wait_closed()
        status = self._process.exit_status
        if status is None and not said:
            return Cut(f"{self._host} fell silent: the program there is gone")
        if status == TOO_OLD:
            text = f"python3 on {self._host} is older than 3.8"
            return EnvironmentUnavailable(text, hint=PYTHON_HINT)
        if status in {NOT_THERE, NOT_ALLOWED}:
            text = f"python3 does not run on {self._host}: {said or status}"
            return EnvironmentUnavailable(text, hint=PYTHON_HINT)
        return EnvironmentUnavailable(
            f"commands do not run on {self._host}: {said or f'exit {status}'}",
            hint=f"`{self._way} python3 --version` has to work",
        )

    async def prepare(self) -> Mapping[str, Any]:
        """Say what the host is, with the toolbox's code on it. Raises EnvironmentUnavailable."""
        facts = await self.ask("prepare")
        if facts.get("has_code") is not True:
            await self.ask("lay", files=dict(code()[1]))
        return facts


@contextlib.asynccontextmanager
async def conversing(
    connection: "asyncssh.SSHClientConnection", host: str, *, way: str = ""
) -> AsyncIterator[Conversation]:
    """Run our program on the host during the block. Raises Cut."""
    errors = library().Error
    try:
        process = await connection.create_process(COMMAND, **AS_IT_IS)
    except (OSError, errors) as error:
        raise Cut(f"no command can be run on {host}: {one_line(error)}") from error
    try:
        with contextlib.suppress(BrokenPipeError):  # it has ended already, and says why
            process.stdin.write(_program())
        yield Conversation(process, host, way=way)
    finally:
        process.close()
        with contextlib.suppress(OSError, errors, TimeoutError):
            async with asyncio.timeout(1.0):
                await process.wait_closed()


@functools.cache
def _program() -> bytes:
    text = Path(TOOLBOX_FOLDER, "arriving.py").read_bytes()
    return base64.b64encode(text) + b"\n"


class _Stream(asyncio.Transport):
    """A channel, as a protocol of asyncio's sees it."""

    def __init__(self, channel: Any) -> None:
        super().__init__()
        self._channel = channel

    def write(self, data: Any) -> None:
        self._channel.write(bytes(data))

    def is_closing(self) -> bool:
        return bool(self._channel.is_closing())

    def close(self) -> None:
        self._channel.close()

    def abort(self) -> None:
        self._channel.abort()


def dial(connection: "asyncssh.SSHClientConnection", host: str, path: str) -> Dial:
    """Return what opens a stream to the socket at `path` on the host.

    That raises Gone where nobody listens there, EnvironmentBroken where the way is broken.
    """

    async def opened(protocol: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
        asyncssh = library()
        try:
            return await _direct(connection, path, protocol)
        except asyncssh.ChannelOpenError:
            pass  # forbidden, or nobody is there: OpenSSH says the same of both
        except (OSError, asyncssh.Error) as error:
            raise EnvironmentBroken(f"the connection to {host} broke: {one_line(error)}") from error
        return await _relayed(connection, host, path, protocol)

    return opened


async def _direct(
    connection: "asyncssh.SSHClientConnection",
    path: str,
    protocol: Callable[[], asyncio.Protocol],
) -> asyncio.Protocol:
    made = protocol()
    await connection.create_unix_connection(lambda: cast("Any", _Bridge(made)), path)
    return made


async def _relayed(
    connection: "asyncssh.SSHClientConnection",
    host: str,
    path: str,
    protocol: Callable[[], asyncio.Protocol],
) -> asyncio.Protocol:
    """Open the stream through a command there, which lives as long as the stream does."""
    made, token = protocol(), os.urandom(8).hex()
    session = _Bridge(made, token)
    request = {"do": "relay", "token": token, "hash": code()[0], "socket": path}
    try:
        channel, _ = await connection.create_session(
            lambda: cast("Any", session), COMMAND, **AS_IT_IS
        )
        channel.write(_program() + json.dumps(request).encode() + b"\n")
        async with asyncio.timeout(ANSWER_S):
            answer = await session.answered
    except (OSError, library().Error, TimeoutError) as error:
        why = one_line(error) or f"nothing came within {ANSWER_S:g} s"
        raise EnvironmentBroken(f"no toolbox answers on {host}: {why}") from error
    if answer:
        channel.abort()
        refusal = Gone if "refused" in answer else EnvironmentBroken
        raise refusal(f"no toolbox answers on {host}: {one_line(answer)}")
    return made


class _Bridge:
    """A session, as the library calls it, that gives what comes to a protocol of asyncio's.

    With a token, bytes count only after the line that it begins.
    """

    def __init__(self, protocol: asyncio.Protocol, token: str = "") -> None:
        loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[Mapping[str, Any]] = loop.create_future()
        self._protocol = protocol
        self._wanted = f"\n{token} ".encode() if token else b""
        self._before = b""
        self._channel: Any = None

    def connection_made(self, channel: Any) -> None:
        """Begin; without a token at once with the stream itself."""
        self._channel = channel
        if not self._wanted:
            self._begin({})

    def _begin(self, answer: Mapping[str, Any]) -> None:
        self.answered.set_result(answer)
        if not answer:
            self._protocol.connection_made(_Stream(self._channel))

    def data_received(self, data: bytes, datatype: Any) -> None:
        """Take bytes; what a command says on its standard error is nobody's."""
        if datatype is not None:
            return
        if self.answered.done():
            self._protocol.data_received(data)
            return
        self._before += data
        _, found, rest = self._before.partition(self._wanted)
        line, is_whole, rest = rest.partition(b"\n")
        if found and is_whole:
            self._begin(_parsed(line))
            if rest:
                self._protocol.data_received(rest)
        elif len(self._before) > LONGEST_LINE:
            self._channel.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Say that it is over."""
        if self.answered.done():
            self._protocol.connection_lost(error)
        else:
            self.answered.set_result({"lost": str(error or "it ended")})

    def eof_received(self) -> bool:
        """Let the channel close."""
        return False

    def session_started(self) -> None:
        """Nothing waits for that."""

    def pause_writing(self) -> None:
        """Frames are bounded; there is nothing to hold back."""

    resume_writing = session_started

    def exit_status_received(self, status: int) -> None:
        """What follows says enough."""

    def exit_signal_received(self, *_: Any) -> None:
        """What follows says enough."""


def _parsed(line: bytes) -> Mapping[str, Any]:
    """Return an answer, or one that refuses where it is none."""
    with contextlib.suppress(ValueError):
        answer = loaded(line)
        if isinstance(answer, dict) and not is_deeper(answer, MAX_DEPTH):
            return answer
    return {"lost": "it answered nonsense"}


__all__ = [
    "ANSWER_S",
    "COMMAND",
    "LONGEST_LINE",
    "Conversation",
    "code",
    "conversing",
    "dial",
]
