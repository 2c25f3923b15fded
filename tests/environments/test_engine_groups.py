"""Container engines that take limits and hold none: they are refused by name, never believed."""

import contextlib
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from environments.yards import Yard, starting
from patchyard.clients import engine_groups
from patchyard.clients.containers import Confined
from patchyard.clients.docker import ContainerEngine
from patchyard.clients.engine_groups import require_groups, require_held
from patchyard.domain.environment import Limits
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.toolbox.bounded import bounds_of, unheld

pytestmark = [pytest.mark.anyio]

MIB = 1024**2
ASKED = {"Memory": 100 * MIB, "PidsLimit": 64, "NanoCpus": 1_500_000_000}
PID = 7


@pytest.mark.parametrize(
    ("info", "cause"),
    [
        ({"CgroupDriver": "none"}, "Cgroup Driver: none"),
        ({"CgroupDriver": "none", "MemoryLimit": True, "PidsLimit": True}, "Cgroup Driver: none"),
        ({"CgroupDriver": "systemd", "MemoryLimit": False}, "no limit of memory"),
        ({"MemoryLimit": False, "PidsLimit": False}, "no limit of memory and processes"),
    ],
)
def test_an_engine_that_says_it_holds_nothing_is_refused(
    info: Mapping[str, Any], cause: str
) -> None:
    with pytest.raises(EnvironmentUnavailable, match=cause) as refused:
        require_groups(info)
    assert "version 2" in refused.value.hint
    assert "rootless" in refused.value.hint


@pytest.mark.parametrize(
    "info", [{}, {"CgroupDriver": "cgroupfs", "MemoryLimit": True, "PidsLimit": True}]
)
def test_an_engine_that_may_hold_limits_is_asked(info: Mapping[str, Any]) -> None:
    require_groups(info)


def laid(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


VERSION_1 = {
    "memory/docker/1/memory.limit_in_bytes": f"{100 * MIB}\n",
    "pids/docker/1/pids.max": "64\n",
    "cpu/docker/1/cpu.cfs_quota_us": "150000\n",
    "cpu/docker/1/cpu.cfs_period_us": "100000\n",
}
VERSION_2 = {
    "cgroup.controllers": "cpu memory pids\n",
    "u/1.scope/memory.max": f"{100 * MIB}\n",
    "u/1.scope/pids.max": "64\n",
    "u/1.scope/cpu.max": "150000 100000\n",
    "u/1.scope/container/memory.max": "max\n",
}
MEMBER_1 = "4:memory:/docker/1\n3:pids:/docker/1\n2:cpu,cpuacct:/docker/1\n0::/\n"
MEMBER_2 = "0::/u/1.scope/container\n"  # Podman's: its bounds are those of the group above


@pytest.mark.parametrize(
    ("files", "member", "missing"),
    [
        (VERSION_1, MEMBER_1, []),
        (VERSION_2, MEMBER_2, []),
        (VERSION_1, "4:memory:/\n3:pids:/\n2:cpu:/\n", ["cpus", "memory", "processes"]),
        (VERSION_1, "4:memory:/user\n3:pids:/docker/1\n2:cpu:/docker/1\n", ["memory"]),
        (VERSION_1 | {"memory/docker/1/memory.limit_in_bytes": "9223372036854771712"}, MEMBER_1,
         ["memory"]),
        (VERSION_1 | {"cpu/docker/1/cpu.cfs_quota_us": "-1"}, MEMBER_1, ["cpus"]),
        (VERSION_2 | {"u/1.scope/pids.max": "max"}, MEMBER_2, ["processes"]),
        (VERSION_2 | {"u/1.scope/pids.max": "65"}, MEMBER_2, ["processes"]),
        (VERSION_2, "0::/../../u/1.scope\n", ["cpus", "memory", "processes"]),
        (VERSION_2, "", ["cpus", "memory", "processes"]),
    ],
)  # fmt: skip
def test_what_no_group_of_a_process_holds_is_named(
    tmp_path: Path, files: Mapping[str, str], member: str, missing: list[str]
) -> None:
    groups, proc = laid(tmp_path / "groups", files), laid(tmp_path, {f"{PID}/cgroup": member})
    found = unheld(PID, bounds_of(ASKED), proc=str(proc), filesystem=str(groups))
    assert found == missing
    asked = Confined(config={"HostConfig": ASKED}, variables={})
    cause = f"container holds: {', '.join(missing)}$"
    refused = pytest.raises(EnvironmentUnavailable, match=cause)
    with refused if missing else contextlib.nullcontext():
        require_held(PID, asked, proc=str(proc), filesystem=str(groups))


def test_what_was_not_asked_for_is_not_missed() -> None:
    assert unheld(os.getpid(), bounds_of({"Memory": 0, "PidsLimit": None}), filesystem="/no") == []


@pytest.mark.service("docker")
async def test_an_engine_without_control_groups_starts_nothing(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = yard.adapter("container")

    async def without(_: ContainerEngine) -> None:
        require_groups({"CgroupDriver": "none"})

    monkeypatch.setattr(ContainerEngine, "require_groups", without)
    with pytest.raises(EnvironmentUnavailable, match="Cgroup Driver: none"):
        await adapter.start(yard.spec())
    readiness = await adapter.check()
    assert not readiness.is_ready
    assert "Cgroup Driver: none" in readiness.cause
    assert "version 2" in readiness.cure


@pytest.mark.service("docker")
async def test_what_an_engine_repeats_and_no_group_holds_starts_nothing(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = yard.adapter("container")
    limits = Limits(memory_bytes=100 * MIB, processes=64, cpus=1.0)
    async with starting(adapter) as start:
        running = await start(yard.spec(limits=limits))
        pid = int(running.handle.details["init"]["pid"])
        assert unheld(pid, {"memory": 100 * MIB, "processes": 64, "cpus": 1.0}) == []
        more = {"memory": 90 * MIB, "processes": 60, "cpus": 0.5}
        assert unheld(pid, more) == ["cpus", "memory", "processes"]
    elsewhere = functools.partial(unheld, filesystem="/no/such/groups")
    monkeypatch.setattr(engine_groups, "unheld", lambda pid, asked, **_: elsewhere(pid, asked))
    cause = "no control group of the container holds: cpus, memory, processes"
    with pytest.raises(EnvironmentUnavailable, match=cause):
        await adapter.start(yard.spec(limits=limits))
