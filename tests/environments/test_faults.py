"""What breaks under a call: each fault ends in a clear state, in time, and nothing is left of it.

A call is at work when the fault strikes; it ends with its result, or with an error that says so.
What belongs to its environment is counted before (so that counting shows something) and after.
"""

import asyncio
import math
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from environments.census import Census
from environments.dockerds import OwnEngine, engine
from environments.far import server
from environments.filling import FULL, full_and_on, small
from environments.yards import VM, Adapter, Running, Yard, living, marks_of, starting
from images import WITHOUT_PYTHON, image
from patchyard.clients import reattaching
from patchyard.clients.berths import from_details
from patchyard.clients.docker import ContainerEngine
from patchyard.clients.guest_toolbox import WatchedToolbox
from patchyard.clients.process import kill
from patchyard.clients.ssh_talk import Conversation
from patchyard.domain.environment import Limits
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, Unavailable
from patchyard.environments.container import ContainerEnvironment
from patchyard.environments.keeping import EnvironmentKeeper
from patchyard.environments.ssh import SSHEnvironment
from sshds import SshServer, serving_ssh
from timing import promised

__all__ = ["engine", "server"]  # fixtures

pytestmark = [pytest.mark.anyio, pytest.mark.service("root")]

ENDING_S = promised(3.0)  # the design's bound of any end
LOST_S = 10.0
CALL = "echo begun; sleep 60"


@dataclass(kw_only=True)
class Scene:
    """One environment with a call at work, and what can be broken around it."""

    yard: Yard
    adapter: Adapter
    running: Running
    census: Census
    engine: OwnEngine | None = None

    def kill(self, *names: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to the first process that the handle knows by one of these names."""
        found = next(filter(None, (from_details(self.running.handle, name) for name in names)))
        assert kill(found, number)

    @property
    def server(self) -> SshServer:
        assert self.yard.server is not None
        return self.yard.server

    async def end(self) -> float:
        """End the environment; return how long that took."""
        began = time.monotonic()
        await self.adapter.end(self.running.handle)
        return time.monotonic() - began


async def toolbox_killed(scene: Scene) -> None:
    scene.kill("init", "root")


async def guests_toolbox_killed(scene: Scene) -> None:
    with pytest.raises(EnvironmentBroken):
        await scene.running.run("kill -9 $PPID; sleep 60")


async def container_killed(scene: Scene) -> None:
    assert scene.engine is not None
    name = str(scene.running.handle.details["container"])
    await asyncio.to_thread(scene.engine.run, "kill", name)


async def machine_paused(scene: Scene) -> None:
    scene.kill("init", number=signal.SIGSTOP)


async def port_cut(scene: Scene) -> None:
    scene.server.stop()


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One line of the table."""

    kind: str
    strikes: Callable[[Scene], Awaitable[None]]
    said: str  # of the error that the call ends with
    within_s: float = LOST_S


FAULTS = (
    Fault(kind="process", strikes=toolbox_killed, said="the toolbox closed"),
    Fault(kind="host", strikes=toolbox_killed, said="the toolbox closed"),
    Fault(kind="container", strikes=toolbox_killed, said="the toolbox closed"),
    Fault(kind="container", strikes=container_killed, said="the toolbox closed"),
    Fault(kind="ssh", strikes=toolbox_killed, said="no toolbox answers"),
    Fault(kind="ssh", strikes=port_cut, said="nor does it come back"),
    Fault(kind="vm", strikes=guests_toolbox_killed, said="ended|closed", within_s=30),
    Fault(kind="vm", strikes=machine_paused, said="does not answer"),
)


@asynccontextmanager
async def at_work(
    yard: Yard, kind: str, command: str = CALL, engine: OwnEngine | None = None
) -> AsyncIterator[tuple[Scene, "asyncio.Future[Any]"]]:
    """A scene with a call that has begun; whoever asks ends the environment."""
    adapter = ContainerEnvironment(yard.station) if kind == "container" else yard.adapter(kind)
    handle = await adapter.start(yard.spec())
    running = Running(adapter, handle, await adapter.attach(handle))
    begun = asyncio.Event()
    arguments = {"command": command, "timeout_s": 100}
    call = running.toolbox.call(
        "01FAULT", "execute_command", arguments, on_output=lambda *_: begun.set()
    )
    task = asyncio.ensure_future(call)
    census = Census.of(yard, handle, engine)
    try:
        await begun.wait()
        yield Scene(yard=yard, adapter=adapter, running=running, census=census, engine=engine), task
    finally:
        task.cancel()
        await asyncio.wait([task])
        await running.toolbox.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for what may come back does so for a moment."""
    monkeypatch.setattr(WatchedToolbox, "look_s", 0.2)
    monkeypatch.setattr(WatchedToolbox, "answer_s", max(5.0, promised(1.5)))
    monkeypatch.setattr(reattaching, "AGAIN_S", 0.3)


@pytest.fixture
def daemon(
    request: pytest.FixtureRequest, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> OwnEngine:
    """The engine of containers, running."""
    made: OwnEngine = request.getfixturevalue("engine")
    monkeypatch.setenv("DOCKER_HOST", made.host)
    yard.image = image(WITHOUT_PYTHON)
    return made


def named(fault: Fault) -> str:
    return f"{fault.strikes.__name__.replace('_', ' ')} of {fault.kind}"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=marks_of(f.kind), id=named(f)) for f in FAULTS]
)
async def test_a_lost_environment_is_said_to_be_lost_in_time_and_leaves_nothing(
    fault: Fault, yard: Yard, request: pytest.FixtureRequest
) -> None:
    own = request.getfixturevalue("daemon") if fault.kind == "container" else None
    if fault.kind == "ssh":
        request.getfixturevalue("server")
    async with at_work(yard, fault.kind, engine=own) as (scene, call):
        before = scene.census.counted()
        assert {"processes", "folders"} <= set(before)
        began = time.monotonic()
        await fault.strikes(scene)
        with pytest.raises(EnvironmentBroken, match=fault.said):
            await call
        assert time.monotonic() - began < promised(fault.within_s)
        if fault.kind == "ssh" and fault.strikes is port_cut:
            scene.server.start()
        assert await scene.end() < ENDING_S
        assert scene.census.left() == {}
        await scene.end()  # once more is fine


WAITING = "mkfifo -m 666 gate; echo begun; read x < gate; echo got $x"


async def word_given(scene: Scene) -> None:
    gate = scene.yard.inside(scene.running.handle) / "gate"
    await asyncio.to_thread(gate.write_text, "word\n")


@pytest.mark.service("docker")
async def test_a_call_outlives_the_daemon_and_the_container_goes_when_that_is_back(
    yard: Yard, daemon: OwnEngine
) -> None:
    async with at_work(yard, "container", WAITING, daemon) as (scene, call):
        daemon.kill()
        await word_given(scene)
        assert (await call)["stdout"] == "begun\ngot word\n"
        began = time.monotonic()
        with pytest.raises(EnvironmentBroken, match="cannot be ended") as broken:
            await scene.end()
        assert time.monotonic() - began < ENDING_S
        assert "DOCKER_HOST" in broken.value.hint
        assert living(yard) == []  # what ran there is killed whoever answers
        daemon.start()
        await scene.end()
        assert scene.census.left() == {}


@pytest.mark.service("docker")
async def test_a_daemon_that_is_started_again_under_a_call_breaks_it(
    yard: Yard, daemon: OwnEngine
) -> None:
    async with at_work(yard, "container", engine=daemon) as (scene, call):
        daemon.kill()
        await asyncio.to_thread(daemon.start)  # which ends the containers of the one before
        with pytest.raises(EnvironmentBroken):
            await call
        await scene.end()
        assert scene.census.left() == {}


@pytest.mark.service("docker")
async def test_a_daemon_killed_while_it_starts_a_container_leaves_it_to_the_janitor(
    yard: Yard, daemon: OwnEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ContainerEngine.start

    async def killed_after(self: ContainerEngine, name: str) -> None:
        await real(self, name)
        daemon.kill()

    adapter = ContainerEnvironment(yard.station)
    monkeypatch.setattr(ContainerEngine, "start", killed_after)
    with pytest.raises(EnvironmentUnavailable) as refused:
        await adapter.start(yard.spec())
    assert "DOCKER_HOST" in refused.value.hint
    daemon.start()
    assert len(daemon.containers()) == 1
    assert await given_back(yard, adapter) == 1
    assert daemon.containers() == []


async def given_back(yard: Yard, adapter: Adapter) -> int:
    """Do the janitor's work; how many environments there were."""
    keeper = EnvironmentKeeper(yard.station, {adapter.kind: adapter})
    found = await keeper.found()
    for each in found:
        assert await keeper.give_back(each, unused_since=math.inf)
    return len(found)


@pytest.mark.service("sshd")
async def test_a_host_that_is_lost_while_it_starts_one_is_cleared_when_it_is_back(
    yard: Yard, server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Conversation.ask

    async def lost_after(self: Conversation, do: str, **fields: object) -> Mapping[str, object]:
        answer = await real(self, do, **fields)
        if do == "start":
            server.stop()
            return await real(self, do, **fields)
        return answer

    adapter = SSHEnvironment(yard.station)
    assert yard.server is server
    with monkeypatch.context() as patched:
        patched.setattr(Conversation, "ask", lost_after)
        with pytest.raises(EnvironmentUnavailable, match="cannot be reached"):
            await adapter.start(yard.spec())
    assert len(server.environments()) == 1
    server.start()
    assert await given_back(yard, adapter) == 1
    assert server.environments() == []
    assert living(yard) == []


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=marks_of(kind)) for kind in ("container", "process")]
)
async def test_a_full_disk_is_a_result_and_work_goes_on_with_room(
    kind: str, yard: Yard, request: pytest.FixtureRequest
) -> None:
    is_container = kind == "container"
    own = request.getfixturevalue("daemon") if is_container else None
    adapter = ContainerEnvironment(yard.station) if is_container else yard.adapter(kind)
    with small(yard.workspace, 2):
        async with starting(adapter) as start:
            running = await start(yard.spec())
            census = Census.of(yard, running.handle, own)
            await full_and_on(running)
            assert [each.name for each in yard.workspace.iterdir()] == ["small.txt"]
        assert census.left() == {}


FULL_THERE = (
    "exec 9> big; rm big; sleep 300 > /dev/null 2>&1 & echo $! > pid;"
    " dd if=/dev/zero bs=8M count=40 >&9"
)
"""A machine's workspace is half of its memory; a file without a name never comes home."""


@pytest.mark.parametrize("kind", [VM])
async def test_a_full_disk_in_a_machine_is_a_result_and_work_goes_on_with_room(
    kind: str, yard: Yard
) -> None:
    async with starting(yard.adapter(kind)) as start:
        running = await start(yard.spec(limits=Limits(memory_bytes=300 * 1024**2)))
        census = Census.of(yard, running.handle, None)
        clear, cure = "kill $(cat pid); rm pid", "the virtual machine's memory is full"
        await full_and_on(running, FULL_THERE, clear, cure=cure)
        assert (yard.workspace / "small.txt").read_text() == "room\n"
    assert census.left() == {}


def with_a_small_home(folder: Path) -> str:
    return f"mount -t tmpfs -o size=2m,mode=755 small {folder}/home-root"


@pytest.mark.service("sshd")
async def test_a_full_disk_of_a_host_is_a_result_and_work_goes_on_with_room(yard: Yard) -> None:
    with serving_ssh(prepared=with_a_small_home) as server:
        yard.use(server)
        async with starting(SSHEnvironment(yard.station)) as start:
            await full_and_on(await start(yard.spec()), cure="that host's disk")
        assert (yard.workspace / "small.txt").read_text() == "room\n"
        seen = f"/proc/{server.process.pid}/root{server.base}/environments"
        assert await asyncio.to_thread(os.listdir, seen) == []


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=marks_of(kind)) for kind in ("ssh", "vm")]
)
async def test_what_finds_no_room_at_home_waits_for_it_and_is_not_lost(
    kind: str, yard: Yard, request: pytest.FixtureRequest
) -> None:
    if kind == "ssh":
        request.getfixturevalue("server")
    async with starting(yard.adapter(kind)) as start:
        with small(yard.workspace, 2) as enlarged:
            running = await start(yard.spec())
            with pytest.raises(Unavailable, match="No space left") as refused:
                await running.result(FULL.replace("zero", "urandom"), call_id="01FULL")
            assert refused.value.hint
            enlarged(8)
            result = await running.toolbox.attach("01FULL")
            assert result is not None
            assert result["success"]
            assert (yard.workspace / "big").stat().st_size == 3_000_000
            await running.adapter.end(running.handle)
