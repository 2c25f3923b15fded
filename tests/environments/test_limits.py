"""Fork bombs, hogs, writers, spinners, floods: each ends, says by what, and harms nobody else."""

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import patchyard
from endings import LONGEST_S
from environments.limited import COMMAND_S, COUNTED, attacked, limited, reporting
from environments.yards import Yard, marks_of
from patchyard.domain.environment import Limits
from patchyard.domain.environment_limits import EnvironmentLimits, limits_for
from patchyard.domain.errors import EnvironmentBroken
from services import absence

pytestmark = [pytest.mark.anyio]

MIB = 1024**2
UID = 61_000 + os.getpid() % 1_000  # processes of a user are counted over all suites that run
ORDINARY = "as an ordinary user"
needs_root = (pytest.mark.service("root"), pytest.mark.service("user-namespaces"))
DOCKER = pytest.param("container", marks=pytest.mark.service("docker"))
WHERE = [
    DOCKER,
    "host",
    pytest.param("process", marks=pytest.mark.service("bubblewrap")),
    pytest.param(f"host {ORDINARY}", marks=needs_root),
    pytest.param(f"process {ORDINARY}", marks=(*needs_root, pytest.mark.service("bubblewrap"))),
]
CONFINED = [where for where in WHERE if "host" not in str(where)]

BOMB = ":(){ :|:& };:; wait"
MANY = 'python3 -c \'import subprocess as s; [s.Popen(["sleep", "5"]) for _ in range(60)]\''
HOG = "python3 -c 'x = bytearray(1 << 28)'"
HOGS = (
    "for i in 1 2 3; do"
    " python3 -c 'import time; x = bytearray(b\"x\") * (30 << 20); time.sleep(50)' & done; wait -n"
)  # each has its memory until all have: one is ended then, or all of them
WRITER = "while :; do head -c 1000000 /dev/zero >>f$((i++)); done"
SPINNER = "while :; do :; done"
CHILD = 'python3 -c \'import subprocess as s; s.run(["sh", "-c", "while :; do :; done"])\'; echo on'
SPINNERS = "for i in 1 2 3; do timeout 50 sh -c 'while :; do :; done' & done; wait"
EATER = "python3 -c 'f = [open(\"/dev/null\") for _ in range(200)]'"

Attack = Callable[..., Awaitable[dict[str, Any]]]


def seen_by(where: str, otherwise: str) -> str:
    """Who sees that a limit is hit: the kernel, where there is a control group to count in."""
    is_counted = where == "container" or (ORDINARY not in where and not absence("control-groups"))
    return "cgroup" if is_counted else otherwise


@pytest.fixture
def attack(where: str, yard: Yard) -> Attack:
    """A function that runs commands there, under limits, beside a neighbour."""
    kind, _, ordinary = where.partition(" ")
    adapter = None if ordinary else yard.adapter(kind)

    async def run(*commands: str, timeout_s: float = COMMAND_S, **limits: Any) -> dict[str, Any]:
        if adapter is None:
            asked = {"commands": commands, "limits": limits, "timeout_s": timeout_s}
            return await asyncio.to_thread(_as_ordinary_user, yard, kind, json.dumps(asked))
        spec = yard.spec(limits=Limits(**limits))
        return await attacked(adapter, spec, commands, timeout_s=timeout_s)

    return run


def _as_ordinary_user(yard: Yard, kind: str, asked: str) -> dict[str, Any]:
    package, place = yard.folder / "package", yard.folder / "theirs"
    shutil.copytree(Path(patchyard.__file__).parent, package / "patchyard")
    shutil.copytree(Path(__file__).parent, package / "environments")
    for folder in (place, place / "workspace", place / "home"):
        folder.mkdir()
        os.chown(folder, UID, UID)
    done = subprocess.run(
        [
            *("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"),
            *("env", "-i", f"HOME={place}/home", "PATH=/usr/bin:/bin", f"PYTHONPATH={package}"),
            *("/usr/bin/python3", "-m", "environments.limited", kind, str(place), asked),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def hit(found: dict[str, Any], limit: str) -> dict[str, Any]:
    """The one result, which must name this limit, while all lives on."""
    (result,) = found["results"]
    assert result.get("limit") == limit, result
    assert result.get("used", 1) > 0
    assert result["allowed"] > 0
    assert f"the limit `{limit}` was reached" in result["message"]
    assert found["lives"] == ["here", "here"], found["after"]
    assert found["health"]["is_alive"]
    assert found["health"]["answers"]
    return dict(result)


@pytest.mark.parametrize("where", WHERE)
async def test_a_fork_bomb_finds_an_end_and_is_cleared_away(attack: Attack, where: str) -> None:
    found = await attack(BOMB, processes=32)
    result = hit(found, "processes")
    assert result["allowed"] == 32
    assert result["limit_seen_by"] == seen_by(where, "output")


@pytest.mark.parametrize("where", WHERE)
async def test_too_many_processes_are_refused_and_told(attack: Attack, where: str) -> None:
    result = hit(await attack(MANY, processes=32), "processes")
    assert result["error"] == "LIMIT"
    assert where


@pytest.mark.parametrize("where", WHERE)
async def test_a_hog_of_memory_is_stopped(attack: Attack, where: str) -> None:
    result = hit(await attack(HOG, memory_bytes=64 * MIB, processes=32), "memory")
    assert (result["error"], result["allowed"]) == ("LIMIT", 64 * MIB)
    assert result["limit_seen_by"] == seen_by(where, "output")


@pytest.mark.service("control-groups")
@pytest.mark.parametrize(
    "where",
    [
        DOCKER,
        pytest.param("process", marks=pytest.mark.service("bubblewrap")),
        pytest.param("ssh-container", marks=marks_of("ssh-container")),
    ],
)
async def test_files_in_memory_are_told_with_their_size(where: str, yard: Yard) -> None:
    adapter = yard.adapter(where)
    spec = yard.spec(limits=Limits(memory_bytes=96 * MIB, processes=32))
    async with limited(adapter, spec) as (_, toolbox):
        fill = {"command": "head -c 41943040 /dev/zero > /tmp/full"}
        assert (await toolbox.call("fill", "execute_command", fill))["success"]
        told = await toolbox.call("hog", "execute_command", {"command": HOG})
    assert told["limit"] == "memory"
    size = re.search(r"in memory and count too \(([0-9.]+) MiB now\)", told["message"])
    assert size is not None, told["message"]
    assert 40 <= float(size[1]) < 45


@pytest.mark.parametrize("where", WHERE)
async def test_hogs_are_counted_together(attack: Attack, where: str) -> None:
    result = hit(await attack(HOGS, memory_bytes=64 * MIB, processes=32), "memory")
    assert result["limit_seen_by"] == seen_by(where, "watch")
    assert result["used"] >= 60 * MIB


@pytest.mark.parametrize("where", WHERE)
async def test_a_large_file_is_cut_off(attack: Attack, where: str) -> None:
    result = hit(await attack("head -c 300000 /dev/zero >big", file_bytes=100_000), "file_size")
    assert (result["error"], result["limit_seen_by"]) == ("LIMIT", "signal"), where


@pytest.mark.parametrize("where", WHERE)
async def test_a_writer_of_many_files_is_stopped(attack: Attack, where: str) -> None:
    result = hit(await attack(WRITER, disk_bytes=20_000_000), "disk")
    assert (result["error"], result["limit_seen_by"]) == ("LIMIT", "watch"), where
    assert result["used"] > 20_000_000


@pytest.mark.parametrize("where", WHERE)
async def test_what_is_written_quickly_is_looked_at_in_the_end(attack: Attack, where: str) -> None:
    found = await attack("head -c 30000000 /dev/zero >big", disk_bytes=20_000_000)
    assert hit(found, "disk")["allowed"] == 20_000_000, where


@pytest.mark.parametrize("where", CONFINED)
async def test_a_folder_in_memory_is_full_some_day(attack: Attack, where: str) -> None:
    fill = "head -c 3000000 /dev/zero >/tmp/x; code=$?; rm /tmp/x; exit $code"
    result = hit(await attack(fill, temporary_bytes=1_000_000), "temporary")
    assert result["error"] == "LIMIT", where


@pytest.mark.parametrize("where", CONFINED)
async def test_files_in_memory_leave_room_for_the_next_command(attack: Attack, where: str) -> None:
    bounds = asdict(limits_for(EnvironmentLimits(memory=64 * MIB)))
    result = hit(await attack("head -c 100000000 /dev/zero >/tmp/x", **bounds), "temporary")
    assert (result["error"], result["allowed"]) == ("LIMIT", 32 * MIB), where


@pytest.mark.parametrize("where", WHERE)
async def test_a_spinner_has_its_time_and_no_more(attack: Attack, where: str) -> None:
    assert hit(await attack(SPINNER, cpu_seconds=1), "cpu_time")["error"] == "LIMIT", where


@pytest.mark.parametrize("where", WHERE)
async def test_spinners_share_their_time(attack: Attack, where: str) -> None:
    result = hit(await attack(SPINNERS, cpu_seconds=1), "cpu_time")
    assert (result["error"], result["limit_seen_by"]) == ("LIMIT", "watch"), where


@pytest.mark.parametrize("where", WHERE)
async def test_a_spinner_that_a_command_started_is_told_too(attack: Attack, where: str) -> None:
    result = hit(await attack(CHILD, cpu_seconds=1), "cpu_time")
    assert (result["error"], result["limit_seen_by"]) == ("LIMIT", "watch"), where
    assert result["used"] >= 1


@pytest.mark.parametrize("where", WHERE)
async def test_descriptors_come_to_an_end(attack: Attack, where: str) -> None:
    result = hit(await attack(EATER, open_files=64), "open_files")
    assert (result["error"], result["allowed"]) == ("LIMIT", 64), where


@pytest.mark.parametrize("where", WHERE)
async def test_a_flood_of_output_is_cut_in_the_middle(attack: Attack, where: str) -> None:
    flood = "seq 1 100000; echo end"
    result = hit(await attack(flood, output_bytes=10_000), "output")
    assert result["success"], where
    assert result["stdout"].startswith("1\n2\n")
    assert result["stdout"].endswith("100000\nend\n")
    assert len(result["stdout"]) < 11_000


@pytest.mark.parametrize("where", WHERE)
async def test_an_endless_flood_ends_with_its_time(attack: Attack, where: str) -> None:
    result = hit(await attack("yes", output_bytes=10_000, wall_s=1.0), "wall")
    assert (result["error"], result["allowed"]) == ("TIMEOUT", 1.0), where


@pytest.mark.parametrize("where", WHERE)
async def test_usage_is_told_of_each_command_and_of_all(attack: Attack, where: str) -> None:
    ticks = "python3 -c 'sum(range(5_000_000))'"  # of the kernel's clock, so many of them
    grow = "python3 -c 'x = b\"x\" * (20 << 20)'"
    use = f"head -c 3000000 /dev/zero >f; sync f; {ticks}; {grow}; echo done"
    found = await attack(use, "true", processes=64)
    first, second = (result["usage"] for result in found["results"])
    assert first["cpu_s"] > second["cpu_s"] or where.startswith("container")
    assert first["memory_bytes"] > 20 * MIB
    assert first["written_bytes"] >= 3_000_000
    assert (first["output_bytes"], second["output_bytes"]) == (5, 0)
    assert first["wall_s"] > 0
    total = found["total"]
    assert total["cpu_s"] >= first["cpu_s"]
    assert total["memory_bytes"] >= first["memory_bytes"]
    assert total["written_bytes"] >= 3_000_000
    is_claimed = "memory_bytes" in first["claimed"]
    assert not (is_claimed and seen_by(where, "") == "cgroup")
    assert "cpu_s" not in first["claimed"]


@pytest.mark.service("control-groups")
@pytest.mark.parametrize("kind", COUNTED)
async def test_a_command_gets_no_more_processors_than_it_may(kind: str, yard: Yard) -> None:
    spin = "for i in 1 2; do timeout 1 sh -c 'while :; do :; done' & done; wait"
    spec = yard.spec(limits=Limits(cpus=0.2))
    async with limited(yard.adapter(kind), spec) as (_, toolbox):
        result = await toolbox.call("c", "execute_command", {"command": spin})
    usage = result["usage"]
    assert usage["cpu_s"] < 0.6 * usage["wall_s"]


@pytest.mark.parametrize("kind", COUNTED)
async def test_a_job_that_passes_a_limit_is_ended_and_told_with_the_next_call(
    kind: str, yard: Yard
) -> None:
    spec = yard.spec(limits=Limits(disk_bytes=20_000_000))
    async with limited(yard.adapter(kind), spec) as (_, toolbox):
        write = "i=0; while [ $i -lt 60 ]; do head -c 1000000 /dev/zero >f$i; i=$((i+1)); done"
        start = "until [ -e go ]; do sleep 0.05; done"  # else the call that starts it may be told
        job = {"command": f"{start}; {write}; sleep 60", "background": True}
        begun = await toolbox.call("job", "execute_command", job)
        wait = f"touch go; while kill -0 {begun['pid']}; do sleep 0.1; done"
        asked = {"command": wait, "timeout_s": COMMAND_S}
        told = await toolbox.call("wait", "execute_command", asked)
        state = await toolbox.call("state", "job_status", {"job_id": "job"})
    assert begun["success"]
    assert (told["limit"], told["limit_seen_by"]) == ("disk", "watch")
    assert state["is_running"] is False


@pytest.mark.parametrize("kind", COUNTED)
async def test_a_job_has_no_more_time_than_a_command(kind: str, yard: Yard) -> None:
    spec = yard.spec(limits=Limits(wall_s=1.0))
    async with limited(yard.adapter(kind), spec) as (_, toolbox):
        begun = await toolbox.call(
            "job", "execute_command", {"command": "sleep 60", "background": True}
        )
        state = dict(begun)
        while state.get("is_running", True):
            state = dict(await toolbox.call(os.urandom(4).hex(), "job_status", {"job_id": "job"}))
    assert state["exit_code"] == -9


@pytest.mark.service("control-groups")
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("where", ["process", DOCKER])
async def test_memory_that_ends_the_whole_environment_is_named(where: str, yard: Yard) -> None:
    """The toolbox itself is the largest then: it holds what the command writes."""
    adapter = yard.adapter(where)
    spec = yard.spec(limits=Limits(memory_bytes=40 * MIB, processes=32))
    flood = "head -c 16000000 /dev/zero; head -c 16000000 /dev/zero >&2"
    async with limited(adapter, spec) as (handle, toolbox):
        with pytest.raises(EnvironmentBroken, match="the limit `memory` was reached") as broken:
            await toolbox.call("c", "execute_command", {"command": flood})
        is_container = where == "container"
        told = "its container ended with exit code 137 (out of memory)"
        assert (told in broken.value.message) == is_container
        health = await reporting(adapter).health(handle)
    assert (broken.value.details["limit"], broken.value.details["allowed"]) == ("memory", 40 * MIB)
    assert (health.is_alive, health.answers, health.limit) == (False, False, "memory")


@pytest.mark.service("control-groups")
@pytest.mark.parametrize("where", [*COUNTED, DOCKER])
async def test_a_command_that_finds_no_room_is_started_once_what_was_left_is_gone(
    where: str, yard: Yard
) -> None:
    adapter = yard.adapter(where)
    async with limited(adapter, yard.spec(limits=Limits(processes=20))) as (handle, _):
        toolbox = await adapter.attach(handle)  # by itself: nobody sweeps after a limit
        left = "for i in $(seq 30); do sleep 60 >/dev/null 2>&1 & done"
        await toolbox.call("c", "execute_command", {"command": left, "timeout_s": 3})
        said = await toolbox.call("d", "execute_command", {"command": "echo here"})
        await toolbox.close()
    assert said["stdout"] == "here\n"


@pytest.mark.parametrize("where", [*COUNTED, DOCKER])
async def test_the_least_that_may_be_set_is_enough_to_work(where: str, yard: Yard) -> None:
    least = Limits(
        memory_bytes=32 * MIB,
        processes=16,
        open_files=32,
        file_bytes=64 * 1024,
        temporary_bytes=64 * 1024,
        output_bytes=1024,
        disk_bytes=MIB,
        cpus=0.05,
        cpu_seconds=1,
        wall_s=30,
    )
    async with limited(yard.adapter(where), yard.spec(limits=least)) as (_, toolbox):
        said = await toolbox.call("c", "execute_command", {"command": "echo $((6 * 7))"})
        read = await toolbox.call("w", "write_file", {"path": "x", "content": "y"})
    assert (said["stdout"], said.get("limit"), read["success"]) == ("42\n", None, True), said
