"""The engine's side of one virtual machine's warden: starts both, and ends them."""

import contextlib
import json
import socket
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.berths import MARK, Pipe, identify_started, read_child_pid
from patchyard.clients.bubblewrap import INFO_FD, INFO_READER_FD
from patchyard.clients.controls import CONTROL_NAME
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
from patchyard.toolbox.spawning import spawn_detached

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
FILL_NAME = "fill.sock"
CODE = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from toolbox.warden import main; sys.exit(main(sys.argv[2]))"
)
END_TIMEOUT_S = 3.0
LEAVING_S = 1.0  # of a warden whose machine has ended
VARIABLES = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


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
    have_ended = [wait_ended(each, timeout_s=END_TIMEOUT_S) for each in found]  # each is reaped
    return all(have_ended)


def _pair(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    stack.callback(one.close)
    stack.callback(other.close)
    return one, other


__all__ = [
    "END_TIMEOUT_S",
    "FILL_NAME",
    "Runner",
    "Start",
    "end_machine",
]
