"""What the tests of this folder share: real environments on a yard of their own."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from images import WITH_PYTHON, image
from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
from patchyard.clients.process import ProcessRef, all_processes
from patchyard.contracts.environment import Freezing, Toolbox
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Limits,
    Mount,
    Readiness,
)
from patchyard.environments.container import ContainerEnvironment
from patchyard.environments.devcontainer import DevcontainerEnvironment
from patchyard.environments.host import HostEnvironment
from patchyard.environments.mock import MockEnvironment
from patchyard.environments.process import ProcessEnvironment
from patchyard.environments.ssh import SSHEnvironment
from patchyard.environments.vm import VmEnvironment
from sshds import HOST, SshServer
from timing import IS_SOAK


class Adapter(Protocol):
    """The contract, as both adapters have it."""

    kind: ExecutionEnvironment

    async def check(self) -> Readiness: ...

    async def start(self, spec: EnvironmentSpec) -> EnvironmentHandle: ...

    async def attach(self, handle: EnvironmentHandle) -> Toolbox: ...

    async def end(self, handle: EnvironmentHandle) -> None: ...


GVISORS = ("container-runsc", "container-runsc-current", "container-runsc-systrap")
"""Containers in gVisor: Debian 12's, a current one, and that on another platform; `runsc…` is what
the container engine calls it, and the service that their tests need."""

ADAPTERS: dict[str, Callable[[Station], Adapter]] = {
    "container": ContainerEnvironment,
    **dict.fromkeys(GVISORS, ContainerEnvironment),
    "devcontainer": DevcontainerEnvironment,
    "host": HostEnvironment,
    "mock": MockEnvironment,
    "process": ProcessEnvironment,
    "ssh": SSHEnvironment,
    "ssh-nobody": SSHEnvironment,
    "ssh-container": SSHEnvironment,
    "ssh-process": SSHEnvironment,
    "ssh-process-nobody": SSHEnvironment,
    "vm": VmEnvironment,
}


LOCAL = ("host", "mock", "process")  # kinds that need nothing but this machine's kernel
IN_CONTAINERS = ("container", *GVISORS, "devcontainer")
SSH = ("ssh", "ssh-nobody")  # as root, whose agent is another user there, and as an ordinary user
CARRIED = {
    "ssh-container": ExecutionEnvironment.CONTAINER,
    "ssh-process": ExecutionEnvironment.PROCESS,
    "ssh-process-nobody": ExecutionEnvironment.PROCESS,
}
"""What the host carries, where it carries something."""
NEEDS = {
    **dict.fromkeys(IN_CONTAINERS, "docker"),
    **dict.fromkeys((*SSH, *CARRIED), "sshd"),
    **{kind: kind.removeprefix("container-") for kind in GVISORS},
    "vm": "qemu",
}
"""The service that tests of a kind need."""


def marks_of(kind: str) -> Sequence[pytest.MarkDecorator]:
    """The marks of a test of one kind."""
    patience = [pytest.mark.timeout(900)] if kind == "vm" else []  # one is made and saved first
    carried = [pytest.mark.service("docker")] if kind == "ssh-container" else []
    needed = [pytest.mark.service(NEEDS[kind])] if kind in NEEDS else []
    return [*patience, *carried, *needed]


IN_GVISOR = [pytest.param(kind, marks=marks_of(kind)) for kind in GVISORS]
VM = pytest.param("vm", marks=marks_of("vm"))
HOSTS = (*SSH, "ssh-container", "ssh-process")  # an ordinary user's: test_what_hosts_carry.py
OFTEN = [kind for kind in IN_CONTAINERS if kind != "container-runsc-current" or IS_SOAK]
KINDS = [pytest.param(kind, marks=marks_of(kind)) for kind in (*OFTEN, *LOCAL, *HOSTS, "vm")]
"""Where the contract holds; a current gVisor's is shown on its default platform."""


@dataclass
class Yard:
    """A folder that the agent's user can pass through, with a workspace of its own."""

    folder: Path
    station: Station
    workspace: Path
    variables: dict[str, str] = field(default_factory=dict)
    image: str = ""  # of containers
    runtime: str = ""  # of containers
    servers: Callable[[str], SshServer] | None = None  # by user
    server: SshServer | None = None  # of the SSH host, once a test has one
    carries: ExecutionEnvironment | None = None  # what that host carries

    def adapter(self, kind: str) -> Adapter:
        """Return the adapter of a kind; specs name an image then where it takes one."""
        if kind in IN_CONTAINERS or CARRIED.get(kind) == ExecutionEnvironment.CONTAINER:
            self.image = image(WITH_PYTHON)
            self.runtime = NEEDS[kind] if kind in GVISORS else ""
        if kind.startswith("ssh") and self.server is None:
            assert self.servers is not None
            self.carries = CARRIED.get(kind)
            user = "nobody" if kind.endswith("-nobody") else "root"
            self.use(self.servers("engine" if kind == "ssh-container" else user))
        return ADAPTERS[kind](self.station)

    def use(self, server: SshServer) -> None:
        """Let specs name this SSH server; one that ended since the last test is started again."""
        if server.process.poll() is not None:
            server.start()
        self.server = server
        server.configure(Path(self.station.home))

    def inside(self, handle: EnvironmentHandle) -> Path:
        """Where the workspace of an environment lies, as this machine sees it."""
        return self.workspace if self.server is None else Path(handle.details["replica"])

    def spec(
        self,
        *mounts: Mount,
        target: str | None = None,
        is_writable: bool = True,
        grace_s: float = 60.0,
        limits: Limits | None = None,
    ) -> EnvironmentSpec:
        source = str(self.workspace)
        return EnvironmentSpec(
            plan_id="01JPLAN",
            purpose="check",
            image=self.image,
            runtime=self.runtime,
            address=HOST if self.server else "",
            carries=self.carries,
            workspace=Mount(source=source, target=target or source, is_writable=is_writable),
            mounts=mounts,
            variables=self.variables,
            orphan_grace_s=grace_s,
            limits=limits or Limits(),
        )


def living(yard: Yard) -> list[ProcessRef]:
    """Return the processes that stand in this test's workspace or name it, as the host sees it."""
    there = [str(yard.server.base / "environments")] if yard.server else []
    places = [str(yard.workspace), *there]
    found = []
    for stat in all_processes():
        with contextlib.suppress(OSError):
            process = Path(f"/proc/{stat.pid}")
            words = (process / "cmdline").read_bytes()
            standing = f"{os.path.realpath(process / 'cwd')}/"
            if any(p.encode() in words or standing.startswith(f"{p}/") for p in places):
                found.append(ProcessRef(pid=stat.pid, started=stat.started))
    return [process for process in found if process.is_alive]


@dataclass(frozen=True)
class Running:
    """One environment while its test runs."""

    adapter: Adapter
    handle: EnvironmentHandle
    toolbox: Toolbox

    async def run(self, command: str, *, call_id: str = "", timeout_s: float = 30) -> str:
        """Return what a command wrote, standard error included."""
        result = await self.result(command, call_id=call_id, timeout_s=timeout_s)
        return f"{result.get('stdout', '')}{result.get('stderr', '')}".strip()

    async def result(
        self, command: str, *, call_id: str = "", timeout_s: float = 30
    ) -> Mapping[str, Any]:
        arguments = {"command": command, "timeout_s": timeout_s}
        call_id = call_id or SystemClock().new_id()
        return await self.toolbox.call(call_id, "execute_command", arguments)

    async def python(self, code: str) -> str:
        """Return what some Python wrote inside."""
        (result,) = [await self.result(f"python3 - <<'PYTHON'\n{code}\nPYTHON")]
        return f"{result.get('stdout', '')}{result.get('stderr', '')}".strip()


@contextlib.asynccontextmanager
async def held_still(running: Running) -> AsyncIterator[None]:
    """Keep one still during the block; again where a busy machine keeps a process from stopping.

    That is said, and holds no checkpoint up.
    """
    assert isinstance(running.adapter, Freezing)
    async with asyncio.timeout(240):
        while True:
            async with running.adapter.frozen(running.handle, running.toolbox) as is_still:
                if is_still:
                    yield
                    return


Start = Callable[..., Awaitable[Running]]


@contextlib.asynccontextmanager
async def starting(adapter: Adapter) -> AsyncIterator[Start]:
    """Give a function that starts environments, and end all of them."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(spec: EnvironmentSpec) -> Running:
            handle = await adapter.start(spec)
            stack.push_async_callback(adapter.end, handle)
            toolbox = await adapter.attach(handle)
            stack.push_async_callback(toolbox.close)
            return Running(adapter, handle, toolbox)

        yield start
