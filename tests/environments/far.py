"""What the tests of SSH hosts share: a server of the test's own, and a call that waits there."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from environments.yards import Running, Yard
from patchyard.clients.process import ProcessRef
from patchyard.domain.environment import EnvironmentHandle
from patchyard.environments.ssh import SSHEnvironment
from sshds import SshServer, serving_ssh

__all__ = ["a_call_at_the_gate", "adapter", "home_of", "server", "toolbox_of"]


@pytest.fixture
def server(yard: Yard) -> Iterator[SshServer]:
    """One of the test's own, as what happens to it would hurt others."""
    with serving_ssh() as made:
        yard.use(made)
        yield made


@pytest.fixture
def adapter(yard: Yard, server: SshServer) -> SSHEnvironment:
    assert yard.server is server
    return SSHEnvironment(yard.station)


def toolbox_of(handle: EnvironmentHandle) -> ProcessRef:
    root = handle.details["root"]
    return ProcessRef(pid=root["pid"], started=root["started"])


def home_of(yard: Yard) -> Path:
    return Path(yard.station.home)


async def a_call_at_the_gate(
    running: Running, yard: Yard
) -> tuple["asyncio.Task[str]", Path, list[str]]:
    """A call that waits for a word at a FIFO, the FIFO, and what the call has said."""
    heard: list[str] = []
    begun = asyncio.Event()

    def on_output(_stream: str, text: str) -> None:
        heard.append(text)
        begun.set()

    command = "mkfifo -m 666 gate; echo ran >> runs; echo begun; read x < gate; echo got $x"

    async def ask() -> str:
        args = {"command": command, "timeout_s": 60}
        result = await running.toolbox.call("01GATE", "execute_command", args, on_output=on_output)
        return str(result["stdout"])

    task = asyncio.create_task(ask())
    await begun.wait()
    return task, yard.inside(running.handle) / "gate", heard
