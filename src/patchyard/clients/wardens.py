"""The engine's side of one virtual machine's warden: starts it, asks it, and waits with a limit."""

import asyncio
import contextlib
import itertools
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.clients.berths import MARK, Pipe, identify_started, read_child_pid
from patchyard.clients.bubblewrap import INFO_FD, INFO_READER_FD
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.process import ProcessRef, kill_while_starting, wait_ended
from patchyard.clients.process import kill as kill_process
from patchyard.clients.qemu import (
    QMP_FD,
    STATE_FD,
    TRUNK_FD,
    Machine,
    command,
    confined,
    find_qemu,
)
from patchyard.clients.toolbox import bind_listener
from patchyard.domain.errors import EnvironmentBroken
from patchyard.toolbox.spawning import spawn_detached
from patchyard.toolbox.wire import Decoder, WireError, encode

LISTEN_FD, CONTROL_FD, OWN_TRUNK_FD, OWN_QMP_FD, SAID_FD, SAVE_FD = 3, 40, 41, 42, 43, 44
FILL_FD = 45
NUMBERS = {
    "listen_fd": LISTEN_FD,
    "control_fd": CONTROL_FD,
    "fill_fd": FILL_FD,
    "trunk_fd": OWN_TRUNK_FD,
    "qmp_fd": OWN_QMP_FD,
    "said_fd": SAID_FD,
    "save_fd": SAVE_FD,
}
CONTROL_NAME, FILL_NAME = "control.sock", "fill.sock"
CODE = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from toolbox.warden import main; sys.exit(main(sys.argv[2]))"
)
ANEW = "it is ended, and started anew"
ANSWER_S = 10.0
END_TIMEOUT_S = 3.0
LEAVING_S = 1.0  # of a warden whose machine has ended
PIECE_BYTES = 64 * 1024
VARIABLES = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

_numbers = itertools.count()


class Control:
    """One connection to a warden. Made by `control`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
                        raise EnvironmentBroken("the virtual machine has ended")
                    self._came += self._decoder.feed(data)
        except (OSError, TimeoutError, WireError) as error:
            why = str(error) or f"nothing came within {timeout_s:g} s"
            text = f"the virtual machine does not answer: {why}"
            raise EnvironmentBroken(text, hint=ANEW) from error
        answer = self._came.pop(0)
        if answer.get("say") == "ended":
            raise EnvironmentBroken(_why_ended(str(answer.get("said"))))
        return answer

    async def tell(self, what: Mapping[str, Any], *, timeout_s: float = ANSWER_S) -> None:
        """Tell the guest something. Raises EnvironmentBroken when it refuses, or is silent."""
        answer = await self.ask({"do": "tell", "what": dict(what)}, timeout_s=timeout_s)
        if answer.get("say") != "done":
            raise EnvironmentBroken(f"the guest refused: {str(answer.get('message'))[:300]}")

    def close(self) -> None:
        """Let go of it, and of what was asked for as long as it lives."""
        self._writer.close()


def _why_ended(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"the virtual machine ended: {' / '.join(lines[-3:])[-500:] or 'it said nothing'}"


async def open_control(folder: Path) -> Control:
    """Connect to the warden whose sockets lie in `folder`. Raises EnvironmentBroken."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        async with asyncio.timeout(ANSWER_S):
            path = f"/proc/self/fd/{descriptor}/{CONTROL_NAME}"  # whatever the folder's length
            reader, writer = await asyncio.open_unix_connection(path)
    except (OSError, TimeoutError) as error:
        raise EnvironmentBroken(f"the virtual machine is gone: {error}") from error
    finally:
        os.close(descriptor)
    return Control(reader, writer)


@contextlib.asynccontextmanager
async def control(folder: Path) -> AsyncIterator[Control]:
    """Yield a connection to the warden. Raises EnvironmentBroken."""
    opened = await open_control(folder)
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


async def open_port(folder: Path) -> tuple[int, socket.socket]:
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
        listener.control = await open_control(folder)
        answer = await listener.control.ask({"do": "listen", "path": path.name})
        port = _port_of(answer)
    except BaseException:
        listener.close()
        raise
    return port, listener


def _port_of(answer: Mapping[str, Any]) -> int:
    port = answer.get("port")
    if not isinstance(port, int) or not 0 < port < 65536:
        raise EnvironmentBroken(f"no port inside: {str(answer.get('message'))[:200]}")
    return port


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Who a machine runs as, and on what its warden runs."""

    identity: AgentIdentity
    python: str
    code: Path  # the folder that holds the compiled `toolbox`


class Start:
    """One start of a machine in a folder of its own: what runs so far, and how to undo it."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.warden: ProcessRef | None = None
        self.machine: ProcessRef | None = None
        self._folder = folder
        self._stack = stack
        self._report = Pipe(stack)

    def spawn(
        self,
        machine: Machine,
        runner: Runner,
        *,
        listener: socket.socket,
        grace_s: float,
        state: int | None = None,
        save: int | None = None,
    ) -> None:
        """Start warden and machine; `state` is where it begins, `save` where it will be kept."""
        stack = self._stack
        filler = stack.enter_context(bind_listener(self._folder, FILL_NAME)[0])
        control_socket = stack.enter_context(bind_listener(self._folder, CONTROL_NAME)[0])
        trunk, qmp, said = _pair(stack), _pair(stack), Pipe(stack)
        words = command(machine, qemu=find_qemu(), is_restored=state is not None)
        with confined(machine, words, identity=runner.identity, folder=self._folder) as prepared:
            own = {
                LISTEN_FD: listener.fileno(),
                CONTROL_FD: control_socket.fileno(),
                FILL_FD: filler.fileno(),
                OWN_TRUNK_FD: trunk[0].fileno(),
                OWN_QMP_FD: qmp[0].fileno(),
                SAID_FD: said.reading,
                **({} if save is None else {SAVE_FD: save}),
            }
            theirs = {
                **prepared.descriptors,
                INFO_FD: self._report.writing,
                INFO_READER_FD: self._report.reading,
                TRUNK_FD: trunk[1].fileno(),
                QMP_FD: qmp[1].fileno(),
                **({} if state is None else {STATE_FD: state}),
            }
            given = {
                "argv": prepared.argv,
                "folder": str(self._folder),
                "grace_s": grace_s,
                "is_ready": state is not None,
                "ours": sorted(own),
                "theirs": sorted(theirs),
                **NUMBERS,
            }
            words = [runner.python, "-I", "-S", "-B", "-c", CODE, str(runner.code)]
            pid = spawn_detached(
                [*words, json.dumps(given)],
                env={**VARIABLES, MARK: self._folder.name},
                descriptors={**own, **theirs, 1: said.writing, 2: said.writing},
            )
        self.warden = identify_started(pid)
        self._report.close_writing()

    async def begun(self) -> ProcessRef:
        """Return the machine's process once it runs. Raises EnvironmentBroken."""
        self.machine = identify_started(await read_child_pid(self._report.reading))
        return self.machine

    def kill(self) -> bool:
        """End whatever runs of it."""
        return end_machine(self.machine, self.warden)


def end_machine(machine: ProcessRef | None, warden: ProcessRef | None) -> bool:
    """Kill the machine, and its warden unless that ends by itself; False when one stays."""
    has_machine = machine is not None and kill_process(machine)
    if warden is None:
        return machine is None or wait_ended(machine, timeout_s=END_TIMEOUT_S)
    if has_machine and wait_ended(warden, timeout_s=LEAVING_S):
        return True
    kill_while_starting(warden)
    found = [each for each in (machine, warden) if each is not None]
    return all([wait_ended(each, timeout_s=END_TIMEOUT_S) for each in found])  # noqa: C419 - reaps


def _pair(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    stack.callback(one.close)
    stack.callback(other.close)
    return one, other


__all__ = [
    "ANEW",
    "ANSWER_S",
    "CONTROL_NAME",
    "END_TIMEOUT_S",
    "FILL_NAME",
    "Control",
    "Port",
    "Runner",
    "Start",
    "control",
    "end_machine",
    "open_control",
    "open_port",
]
