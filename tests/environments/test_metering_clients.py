"""Counters of an environment, how much its workspace grew, and how it is: over files and here."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from environments.limited import COUNTED, limited, reporting
from environments.yards import Yard
from patchyard.clients import cgroups, growth, metering, vitals
from patchyard.clients.berths import to_details
from patchyard.clients.boot import boot_id
from patchyard.clients.growth import HomeMeter
from patchyard.clients.holding import (
    EACH,
    GROUP,
    NO_WAY,
    NOTHING,
    SIZE,
    held_by,
    held_in_machine,
    held_there,
    unheld,
    unheld_there,
)
from patchyard.clients.metering import Counter, LocalMeter
from patchyard.clients.process import identify, tasks_of
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment, Limits

HANDLE = EnvironmentHandle(
    environment_id="01J00000000000000000000000",
    kind=ExecutionEnvironment.PROCESS,
    workspace_path="/nowhere",
)


@pytest.fixture
def sleeper() -> Iterator[int]:
    script = "sleep 60 & exec sleep 60"
    process = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True)
    while Path(f"/proc/{process.pid}/comm").read_text(encoding="ascii") != "sleep\n":
        pass  # while it becomes another program it has no memory
    yield process.pid
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many bytes are free on every disk, to be changed."""
    there = [10**9]
    monkeypatch.setattr(growth.Disk, "free", lambda _self: there[0])
    return there


def apart(folder: Path) -> LocalMeter:
    """Return a meter that nobody tells what was written, of a folder that holds what is new."""
    details = {"written": str(folder), "is_apart": True, "limits": {"disk_bytes": 800_000}}
    return LocalMeter(replace(HANDLE, details=details), "init")


def handle_of(pid: int, *group: Path, **details: object) -> EnvironmentHandle:
    own = {"boot": boot_id(), "init": to_details(identify(pid)), "group": list(map(str, group))}
    return replace(HANDLE, details={**own, **details})


def test_version_2_is_read_as_the_kernel_writes_it(tmp_path: Path, sleeper: int) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (tmp_path / "memory.peak").write_text("4096\n")
    (tmp_path / "memory.events").write_text("low 0\nmax 3\noom 1\noom_kill 2\n")
    (tmp_path / "pids.events").write_text("max 7\n")
    (tmp_path / "pids.peak").write_text("9\n")
    meter = LocalMeter(handle_of(sleeper, tmp_path), "init")
    found = meter.read()
    meter.close()
    assert (found.cpu_s, found.memory_bytes, found.processes) == (2.5, 4096, 9)
    assert (found.ended_for_memory, found.refused_processes) == (2, 7)
    assert (tmp_path / "memory.peak").read_text() == "0096\n"  # begun anew


def test_version_1_is_read_as_the_kernel_writes_it(tmp_path: Path, sleeper: int) -> None:
    (tmp_path / "cpuacct.usage").write_text("1500000000\n")
    (tmp_path / "memory.max_usage_in_bytes").write_text("8192\n")
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    meter = LocalMeter(handle_of(sleeper, tmp_path), "init")
    found = meter.read()
    meter.close()
    assert (found.cpu_s, found.memory_bytes, found.ended_for_memory) == (1.5, 8192, 1)
    assert (found.processes, found.refused_processes) == (None, None)


def test_an_older_kernels_peak_is_read_and_stays(
    tmp_path: Path, sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory.peak").write_text("4096\n")
    opened = os.open

    def reading_only(path: str, flags: int) -> int:
        if path.endswith("memory.peak") and flags & os.O_RDWR:
            raise PermissionError
        return opened(path, flags)

    monkeypatch.setattr(os, "open", reading_only)
    meter = LocalMeter(handle_of(sleeper, tmp_path), "init")
    assert (meter.read().memory_bytes, meter.read().memory_bytes) == (4096, 4096)
    meter.close()


def test_what_cannot_be_read_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "pids.peak").write_text("many\n")
    (tmp_path / "pids.events").write_text("min 1\n")
    garbled = Counter([str(tmp_path)], {"pids.peak": int}, flags=os.O_RDONLY)
    lacking = Counter([str(tmp_path)], {"pids.events": metering._field(b"max")}, flags=os.O_RDONLY)
    missing = Counter([str(tmp_path)], {"none": int}, flags=os.O_RDONLY)
    missing.reset()
    assert (garbled.read(), lacking.read(), missing.read()) == (None, None, None)
    for counter in (garbled, lacking, missing):
        counter.close()
        counter.close()


@pytest.mark.anyio
async def test_without_a_group_the_tree_is_looked_at(sleeper: int) -> None:
    meter = LocalMeter(handle_of(sleeper), "init")
    found = meter.read()
    looked = await meter.look()
    meter.close()
    assert (found.ended_for_memory, found.memory_bytes) == (None, None)
    assert found.cpu_s is not None
    assert looked.processes_now >= 1
    assert looked.memory_now > 0
    assert looked.cpu_s is not None


@pytest.mark.anyio
async def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    meter = LocalMeter(HANDLE, "init")
    found, looked = meter.read(), await meter.look()
    meter.close()
    assert (found.cpu_s, found.written_bytes, looked.processes_now) == (None, None, 0)
    assert not found.has_room


@pytest.mark.anyio
async def test_the_workspace_is_looked_through_when_much_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: list[int]
) -> None:
    folder = tmp_path / "upper"
    folder.mkdir()
    monkeypatch.setattr(growth, "USUAL", 0)  # so that it is not looked through each time
    meter = apart(folder)
    first = await meter.look()
    (folder / "f").write_bytes(b"x" * 500_000)
    free[0] -= 90_000
    assert not meter.read().is_due
    free[0] -= 410_000
    assert meter.read().is_due
    meter._disk._next = 0.0
    looked = await meter.look()
    assert first.disk_bytes is not None
    assert first.disk_bytes < 10_000
    assert looked.disk_bytes is not None
    assert looked.disk_bytes >= 500_000
    assert not meter.read().is_due
    meter.close()


@pytest.mark.anyio
async def test_a_tree_with_the_base_in_it_has_grown_by_no_more_than_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: list[int]
) -> None:
    (tmp_path / "base").write_bytes(b"x" * 900_000)
    monkeypatch.setattr(growth, "USUAL", 0)  # so that nobody looks what lay there before
    details = {"written": str(tmp_path), "limits": {"disk_bytes": 800_000}}
    meter = LocalMeter(replace(HANDLE, details=details), "init")
    free[0] -= 5_000
    assert (await meter.look()).disk_bytes == 5_000
    meter.close()


@pytest.mark.anyio
async def test_what_others_write_to_the_disk_and_what_was_deleted_is_no_growth(
    tmp_path: Path, free: list[int]
) -> None:
    (tmp_path / "base").write_bytes(b"x" * 900_000)
    details = {"written": str(tmp_path), "limits": {"disk_bytes": 800_000}}
    meter = LocalMeter(replace(HANDLE, details=details), "init")
    await meter.look()
    (tmp_path / "more").write_bytes(b"x" * 100_000)
    free[0] -= 5_000_000
    meter._disk._next = 0.0
    grown = (await meter.look()).disk_bytes
    meter.close()
    assert grown is not None
    assert 100_000 <= grown < 110_000


@pytest.mark.anyio
async def test_what_others_take_away_hides_no_growth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: list[int]
) -> None:
    monkeypatch.setattr(growth, "REST", 0)
    meter = apart(tmp_path)
    await meter.look()
    (tmp_path / "more").write_bytes(b"x" * 900_000)
    free[0] += 5_000_000
    assert meter.read().is_due
    grown = (await meter.look()).disk_bytes
    meter.close()
    assert grown is not None
    assert grown >= 900_000


@pytest.mark.anyio
async def test_what_came_home_is_looked_at_after_each_command_where_less_than_usual_is_allowed(
    tmp_path: Path,
) -> None:
    details = {"written": str(tmp_path), "limits": {"disk_bytes": 800_000}}
    (tmp_path / "base").write_bytes(b"x" * 900_000)
    meter = HomeMeter(replace(HANDLE, details=details))
    usual = HomeMeter(replace(HANDLE, details={"written": str(tmp_path)}))
    assert (meter.read().is_due, usual.read().is_due) == (True, False)
    carried = HomeMeter(replace(HANDLE, details={"carries": "container"}))
    assert (usual.read().has_room, carried.read().has_room) == (False, True)
    assert ((await meter.look()).disk_bytes, (await usual.look()).disk_bytes) == (0, None)
    (tmp_path / "more").write_bytes(b"x" * 100_000)
    assert (await meter.look()).disk_bytes == 0  # nobody asked since
    assert meter.read().is_due
    grown = (await meter.look()).disk_bytes
    assert grown is not None
    assert 100_000 <= grown < 110_000
    meter.close()


@pytest.mark.service("control-groups")
def test_a_counter_outlives_its_control_group() -> None:
    group = cgroups.own_group(f"lasting-{os.getpid()}", Limits(processes=1))
    (place,) = [Path(each) for each in group if Path(each, "pids.events").exists()]
    with subprocess.Popen(["/bin/sh", "-c", "read x; sleep 0 & wait"], stdin=subprocess.PIPE) as sh:
        cgroups.join_group(group, sh.pid)
        handle = handle_of(os.getpid(), *map(Path, group), tasks=1)
        meter = LocalMeter(handle, "init")
        before = meter.read().refused_processes
        sh.communicate(b"\n")
    deadline = time.monotonic() + 10
    while not meter.read().refused_processes and time.monotonic() < deadline:
        pass
    cgroups.remove_group(group)
    assert not place.exists()
    after = meter.read().refused_processes
    meter.close()
    meter.close()
    assert (before, bool(after)) == (0, True)
    lacking = LocalMeter(handle, "init")
    assert lacking.read().refused_processes is None
    lacking.close()


@pytest.mark.anyio
async def test_no_limit_of_the_disk_is_never_looked_at(tmp_path: Path) -> None:
    details = {"written": str(tmp_path), "limits": {"disk_bytes": None}}
    meter = LocalMeter(replace(HANDLE, details=details), "init")
    assert not meter.read().is_due
    assert (await meter.look()).disk_bytes is None
    meter.close()


def test_which_limit_killed_in_a_group_is_read_in_either_version(tmp_path: Path) -> None:
    assert vitals.limit_of((str(tmp_path),)) == ""
    (tmp_path / "memory.events").write_text("oom 1\noom_kill 0\n\n")
    assert vitals.limit_of((str(tmp_path),)) == ""
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\noom_kill 3\n")
    assert vitals.limit_of((str(tmp_path),)) == "memory"


def test_who_listens_answers(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert not vitals.answers(tmp_path / "none" / "s")
    assert not vitals.answers(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert not vitals.answers(path)
        listener.listen()
        assert vitals.answers(path)


def test_when_a_process_began_is_not_known_of_one_that_is_gone() -> None:
    assert vitals._began(2**22 + 5) is None


@pytest.mark.anyio
@pytest.mark.service("bubblewrap")
@pytest.mark.parametrize("kind", COUNTED)
async def test_health_tells_a_living_environment_from_an_ended_one(kind: str, yard: Yard) -> None:
    adapter = yard.adapter(kind)
    async with limited(adapter, yard.spec()) as (handle, _):
        up = await reporting(adapter).health(handle)
    down = await reporting(adapter).health(handle)
    assert (up.is_alive, up.answers, up.limit) == (True, True, "")
    assert up.since is not None
    assert (down.is_alive, down.answers, down.since) == (False, False, None)


@pytest.mark.anyio
@pytest.mark.service("docker")
async def test_a_container_that_is_gone_without_a_limit_says_none(yard: Yard) -> None:
    adapter = yard.adapter("container")
    async with limited(adapter, yard.spec()) as (handle, _):
        pass
    down = await reporting(adapter).health(handle)
    unreachable = replace(handle, details={**handle.details, "engine": f"{yard.folder}/none"})
    assert (down.is_alive, down.limit) == (False, "")
    assert (await reporting(adapter).health(unreachable)).limit == ""


@pytest.mark.anyio
@pytest.mark.service("bubblewrap")
@pytest.mark.parametrize("kind", COUNTED)
async def test_a_check_says_by_what_each_limit_is_held(kind: str, yard: Yard) -> None:
    readiness = await yard.adapter(kind).check()
    rows = {row["limit"]: row["held_by"] for row in readiness.facts["limits"]}
    assert rows["wall"] == "time-out"
    assert rows["file_size"] == EACH
    assert rows["temporary"] == (NOTHING if kind == "host" else "the size of each folder")


def test_what_is_held_is_said_of_groups_and_without(tmp_path: Path) -> None:
    without = {row["limit"]: row["held_by"] for row in held_by((), in_memory="", network="")}
    assert without["cpus"] == NOTHING
    assert GROUP not in without.values()
    (tmp_path / "cpu.max").write_text("100000 100000")
    (tmp_path / "memory.max").write_text("5")
    (tmp_path / "pids.max").write_text("5")
    group = (str(tmp_path),)
    within = {row["limit"]: row["held_by"] for row in held_by(group, in_memory="", network="")}
    assert {within[name] for name in ("cpus", "memory", "processes")} == {GROUP}
    assert unheld(Limits(cpus=1.0), ()) == ["cpus"]
    assert unheld(Limits(cpus=1.0), group) == []
    assert unheld(Limits(), ()) == []
    reaching = Limits(network_bytes=9, connections=1)
    assert unheld(reaching, (), has_gateways=False) == ["connections", "network"]
    assert unheld(reaching, ()) == []
    nowhere = ("disk", "temporary")
    assert unheld(Limits(), (), nowhere=nowhere) == []
    assert unheld(Limits(disk_bytes=2**20), (), nowhere=nowhere) == ["disk"]


def test_what_is_held_elsewhere_is_said_by_what_stands_there() -> None:
    carried = (None, ExecutionEnvironment.PROCESS, ExecutionEnvironment.CONTAINER)
    said = [{row["limit"]: row["held_by"] for row in held_there(each)} for each in carried]
    assert [each["cpus"] for each in said] == [NOTHING, NOTHING, GROUP]
    assert [each["network"] for each in said] == [NOTHING, NO_WAY, NO_WAY]
    assert [each["temporary"] for each in said] == [NOTHING, SIZE, SIZE]
    machine = {row["limit"]: row["held_by"] for row in held_in_machine()}
    assert (machine["temporary"], machine["file_size"]) == (NOTHING, EACH)
    asked = Limits(cpus=1.0, connections=1, processes=16, temporary_bytes=2**20)
    unbound = ["processes", "temporary", "connections", "cpus"]
    assert [unheld_there(asked, each) for each in carried] == [unbound, ["cpus"], []]


def test_the_tasks_of_a_user_are_counted_with_their_threads() -> None:
    assert tasks_of(os.geteuid()) > 1
    assert tasks_of(2**31 - 7) == 0


@pytest.mark.anyio
async def test_what_was_too_much_and_is_gone_stops_nobody(tmp_path: Path, free: list[int]) -> None:
    meter = apart(tmp_path)
    (tmp_path / "much").write_bytes(b"x" * 900_000)
    free[0] -= 900_000
    looked = (await meter.look()).disk_bytes
    assert looked is not None
    assert looked > 800_000
    (tmp_path / "much").unlink()
    free[0] += 900_000  # less was written than at the last look, which was just now
    assert meter.read().is_due
    now = (await meter.look()).disk_bytes
    meter.close()
    assert now is not None
    assert now < 10_000
