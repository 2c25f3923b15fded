"""What is gVisor's own among containers: who it is, how it is reached, and how it ends."""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from environments.kernels import STATUS, proc_of
from environments.limited import limited
from environments.yards import GVISORS, IN_GVISOR, Adapter, Running, Start, Yard
from patchyard.clients import container_wardens
from patchyard.clients.as_asked import SENTRY, require_sentry
from patchyard.clients.berths import MARK, from_details, group_of
from patchyard.clients.container_streams import attach
from patchyard.clients.docker import ContainerEngine
from patchyard.clients.process import ProcessRef, all_processes, kill, wait_ended
from patchyard.clients.ways import MONITOR
from patchyard.contracts.environment import Metering, Toolbox
from patchyard.domain.environment import (
    STRENGTH,
    ExecutionEnvironment,
    Limits,
    strength_of,
    strength_of_word,
    walls_word,
)
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.engine.ends import health_at_end
from patchyard.engine.metering import ended_by_limit
from timing import promised

pytestmark = pytest.mark.anyio
needs_gvisor = pytest.mark.parametrize("gvisor", IN_GVISOR)
CONTAINER, VM = ExecutionEnvironment.CONTAINER, ExecutionEnvironment.VM
SENTRYS = {**STATUS, "CapEff": "0000000000240000", "Seccomp": "2", "Seccomp_filters": "1"}
NOTHING_LEFT = {
    **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd"), "0" * 16),
    "NoNewPrivs": "1",
    "Seccomp": "2",
    "Uid": "60900 60900 60900 60900",
}


@pytest.fixture
def gvisor() -> str:
    """Which of them; the tests that need one name each in turn."""
    return GVISORS[0]


@pytest.fixture
def adapter(yard: Yard, gvisor: str) -> Adapter:
    return yard.adapter(gvisor)


def test_gvisor_ranks_between_a_container_and_a_machine() -> None:
    ranks = [strength_of(CONTAINER, "crun"), strength_of(CONTAINER, "runsc-kvm"), strength_of(VM)]
    assert ranks == sorted(set(ranks))
    assert strength_of(VM, "runsc") == STRENGTH[VM]
    words = [walls_word(CONTAINER, "runc"), walls_word(CONTAINER, "runsc"), walls_word(VM)]
    assert words == ["container", "container/runsc", "vm"]
    assert [strength_of_word(word) for word in words] == ranks


@pytest.mark.parametrize(
    ("status", "shared", "program", "rights", "named"),
    [
        ({}, "", "/run/patchyard/python", {}, "Runtime"),
        ({"NoNewPrivs": "0"}, "", SENTRY, {}, "NoNewPrivs"),
        ({"Seccomp": "0"}, "", SENTRY, {}, "Seccomp"),
        ({}, "user", SENTRY, {}, "user namespace"),
        ({}, "net", SENTRY, {}, "net namespace"),
        ({}, "", SENTRY, {"CapEff": "0000000000000001"}, "CapEff inside"),
        ({}, "", SENTRY, {"CapAmb": "0000000000000001"}, "CapAmb inside"),
        ({}, "", SENTRY, {"Seccomp": "0"}, "Seccomp inside"),
        ({}, "", SENTRY, {"NoNewPrivs": "0"}, "NoNewPrivs inside"),
        ({}, "", SENTRY, {"Uid": "0 0 0 0"}, "Uid inside"),
    ],
)
def test_what_is_no_gvisor_or_a_weaker_one_is_refused_by_name(
    tmp_path: Path,
    status: Mapping[str, str],
    shared: str,
    program: str,
    rights: Mapping[str, str],
    named: str,
) -> None:
    good = proc_of(tmp_path / "good", SENTRYS, program=SENTRY)
    require_sentry(7, NOTHING_LEFT, uid=60900, proc=good)
    bad = proc_of(tmp_path / "bad", {**SENTRYS, **status}, shared=shared, program=program)
    with pytest.raises(EnvironmentUnavailable, match=f"asked: {named}$"):
        require_sentry(7, {**NOTHING_LEFT, **rights}, uid=60900, proc=bad)


def test_a_process_that_is_gone_and_one_that_told_nothing_have_no_walls(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"Runtime.*CapBnd inside.*Uid inside"):
        require_sentry(7, {}, uid=60900, proc=tmp_path)


@pytest.mark.parametrize("said", [b"HTTP/1.1 404 Not Found\r\n\r\n", b"HTTP", b"x\r\n\r\n", b""])
async def test_an_engine_that_passes_no_streams_on_is_named(tmp_path: Path, said: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "engine.sock"))
        listener.listen()
        attaching = asyncio.create_task(
            asyncio.to_thread(attach, str(tmp_path / "engine.sock"), "box")
        )
        with (await asyncio.to_thread(listener.accept))[0] as peer:
            assert b"/containers/box/attach?" in await asyncio.to_thread(peer.recv, 4096)
            peer.sendall(said)
        with pytest.raises(EnvironmentUnavailable, match="does not pass on"):
            await attaching


def of(running: Running, name: str) -> ProcessRef:
    found = from_details(running.handle, name)
    assert found is not None
    return found


def words_of(process: ProcessRef) -> list[str]:
    return Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")


def tasks(running: Running) -> list[int]:
    """The processes of this machine that the container goes with."""
    places = [Path(place, "cgroup.procs") for place in group_of(running.handle)]
    return [int(pid) for place in places if place.exists() for pid in place.read_text().split()]


def wardens(environment_id: str) -> list[int]:
    found = []
    for stat in all_processes():
        with suppress(OSError):
            if (
                f"{MARK}={environment_id}".encode()
                in Path(f"/proc/{stat.pid}/environ").read_bytes()
            ):
                found.append(stat.pid)
    return found


@needs_gvisor
async def test_it_is_gvisors_kernel_that_answers_inside(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    assert await running.run("uname -r") != os.uname().release
    assert words_of(of(running, "init"))[0] == SENTRY


@needs_gvisor
async def test_a_runtime_that_the_engine_does_not_know_is_refused_with_those_there_are(
    adapter: Adapter, yard: Yard
) -> None:
    spec = replace(yard.spec(), runtime="runsc-none")
    with pytest.raises(EnvironmentUnavailable, match="knows no runtime 'runsc-none'") as refused:
        await adapter.start(spec)
    assert "runc, runsc" in refused.value.hint


def run_all_by(monkeypatch: pytest.MonkeyPatch, runtime: str) -> None:
    """Have the engine take a runtime, whatever it is asked for."""
    make = ContainerEngine.create

    async def create(self: ContainerEngine, name: str, config: Mapping[str, object]) -> None:
        host = config.get("HostConfig", {})  # none where only the image is looked at
        assert isinstance(host, dict)
        await make(self, name, {**config, "HostConfig": {**host, "Runtime": runtime}})

    monkeypatch.setattr(ContainerEngine, "create", create)


@needs_gvisor
async def test_an_engine_whose_default_is_gvisor_is_asked_to_be_told(
    adapter: Adapter, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all_by(monkeypatch, "runsc")
    with pytest.raises(EnvironmentUnavailable, match="own default is runsc") as refused:
        await adapter.start(replace(yard.spec(), runtime=""))
    assert "--runtime runsc" in refused.value.hint


@needs_gvisor
async def test_a_plain_container_in_its_place_is_refused(
    adapter: Adapter, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all_by(monkeypatch, "runc")
    with pytest.raises(EnvironmentUnavailable, match="weaker container than asked: Runtime"):
        await adapter.start(yard.spec())
    assert list(yard.station.runtime.glob("0*")) == []


@needs_gvisor
@pytest.mark.parametrize("is_stopped", [False, True])
async def test_ending_takes_all_of_it_along(
    start: Start, adapter: Adapter, yard: Yard, *, is_stopped: bool
) -> None:
    running = await start(yard.spec())
    await running.run("(setsid sleep 300 &)")
    before = tasks(running)
    assert of(running, "init").pid in before
    if is_stopped:
        for pid in (*before, of(running, MONITOR).pid):
            with suppress(ProcessLookupError):  # what served a command may have ended meanwhile
                os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(promised(3)):
        await adapter.end(running.handle)
    assert (tasks(running), wardens(running.handle.environment_id)) == ([], [])
    assert not of(running, "init").is_alive


@needs_gvisor
async def test_without_its_warden_it_ends_and_is_said_to_be_gone(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    waiting = asyncio.create_task(running.run("sleep 300"))
    await running.run("true")
    assert kill(of(running, MONITOR))
    with pytest.raises(EnvironmentBroken):
        await waiting
    assert await asyncio.to_thread(wait_ended, of(running, "init"), timeout_s=60)
    with pytest.raises(EnvironmentBroken):
        await adapter.attach(running.handle)


@needs_gvisor
async def test_a_warden_that_does_not_answer_fails_the_start(
    adapter: Adapter, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_wardens, "CODE", "raise SystemExit")
    with pytest.raises(EnvironmentUnavailable, match="the container"):
        await adapter.start(yard.spec())
    assert list(yard.station.runtime.glob("0*")) == []


@needs_gvisor
async def test_a_warden_that_nobody_can_ask_is_ended_with_what_it_held(
    adapter: Adapter, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[ProcessRef] = []
    end = container_wardens.end_warden

    async def refuses(*_words: object) -> None:
        raise EnvironmentBroken("the container is gone")

    def ends(warden: ProcessRef) -> bool:
        begun.append(warden)
        return end(warden)

    monkeypatch.setattr(container_wardens, "open_control", refuses)
    monkeypatch.setattr(container_wardens, "end_warden", ends)
    with pytest.raises(EnvironmentUnavailable, match="is gone"):
        await adapter.start(yard.spec())
    assert [warden.is_alive for warden in begun] == [False]
    assert list(yard.station.runtime.glob("0*")) == []


#: Writes the result of its own call to all that the toolbox has open, as gVisor of 2022 lets it.
FORGING = """
import json, os, struct
call = os.environ["PATCHYARD_CALL"].rpartition(".")[2]
result = {"success": True, "exit_code": 0, "stdout": "forged", "stderr": ""}
body = json.dumps({"say": "result", "call_id": call, "result": result}).encode()
data = struct.pack(">I", len(body)) + body
for name in os.listdir("/proc/1/fd"):
    try:
        number = os.open("/proc/1/fd/" + name, os.O_WRONLY | os.O_NONBLOCK)
        for strand in range(1, 64, 2):
            os.write(number, struct.pack(">IBI", strand, 1, len(data)) + data)
    except OSError as error:
        print(name, error)
raise SystemExit(7)
"""


@needs_gvisor
async def test_a_result_counts_only_when_the_toolbox_said_it(start: Start, yard: Yard) -> None:
    """What is forged ends the environment, or does not reach the stream at all."""
    running = await start(yard.spec())
    (yard.workspace / "forging.py").write_text(FORGING)
    try:
        found = await running.result("python3 forging.py")
    except EnvironmentBroken:
        return
    assert found["exit_code"] == 7, found


@needs_gvisor
@pytest.mark.usefixtures("patient")
async def test_memory_is_bounded_and_the_limit_is_named(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    assert isinstance(adapter, Metering)
    running = await start(yard.spec(limits=Limits(memory_bytes=256 << 20, processes=32)))
    meter = adapter.meter(running.handle)
    with pytest.raises(EnvironmentBroken):
        await running.run("head -c 2000000000 /dev/zero | tail", timeout_s=200)
    used = meter.read()
    meter.close()
    health = await health_at_end(adapter, running.handle)  # it may be about to end
    assert health is not None
    assert health.limit == "memory"
    assert used.memory_bytes is None or used.memory_bytes <= 256 << 20


MANY = 'python3 -c \'import subprocess as s; [s.Popen(["sleep", "5"]) for _ in range(400)]\''


@needs_gvisor
@pytest.mark.usefixtures("patient")
async def test_a_fork_bomb_that_ends_gvisor_is_named_with_what_was_counted(
    adapter: Adapter, yard: Yard, gvisor: str
) -> None:
    async with limited(adapter, yard.spec(limits=Limits(processes=32))) as (_, toolbox):
        payload, told = await ending(toolbox, MANY)
    assert (payload["error"], payload["limit"]) in {("LIMIT", "processes"), REFUSED}, payload
    # on `systrap` it sometimes outlives a task that it is refused
    assert told or gvisor == "container-runsc-systrap"
    if told:
        assert "256 of 256 tasks of this machine, which gVisor needs for 32 " in told
        assert payload["used"] == 256


REFUSED = ("COMMAND_FAILED", "processes")


async def ending(toolbox: Toolbox, command: str) -> tuple[Mapping[str, Any], str]:
    """Return the result of a command, and what was said where the environment ended over it."""
    try:
        return await toolbox.call("c", "execute_command", {"command": command}), ""
    except EnvironmentBroken as broken:
        return ended_by_limit(broken) or {}, broken.message
