"""Limits that hold on other hosts and in machines: each is told there with its figure."""

import pytest

from environments.limited import limited
from environments.yards import VM, Yard, marks_of
from patchyard.domain.environment import Limits

pytestmark = [pytest.mark.anyio]

MIB = 1024**2
HOG = "python3 -c 'x = bytearray(1 << 28)'"


@pytest.mark.parametrize("where", [pytest.param("ssh-container", marks=marks_of("ssh-container"))])
async def test_a_hog_in_a_container_elsewhere_is_told_by_its_own_group(
    where: str, yard: Yard
) -> None:
    adapter = yard.adapter(where)
    spec = yard.spec(limits=Limits(memory_bytes=64 * MIB, processes=32))
    async with limited(adapter, spec) as (_, toolbox):
        told = await toolbox.call("hog", "execute_command", {"command": HOG})
        after = await toolbox.call("after", "execute_command", {"command": "echo here"})
    assert (told["error"], told["limit"], told["limit_seen_by"]) == ("LIMIT", "memory", "guest")
    assert (after["stdout"], "limit" in after) == ("here\n", False)


AWAY = [pytest.param(kind, marks=marks_of(kind)) for kind in ("ssh", "ssh-process")]


@pytest.mark.parametrize("kind", AWAY)
async def test_what_came_home_is_measured_after_a_command(kind: str, yard: Yard) -> None:
    adapter = yard.adapter(kind)
    async with limited(adapter, yard.spec(limits=Limits(disk_bytes=2 * MIB))) as (handle, toolbox):
        run = "head -c 1000000 /dev/urandom >a; head -c 3000000 /dev/urandom >b; rm b"
        good = await toolbox.call("c", "execute_command", {"command": run})
        more = {"command": "head -c 2000000 /dev/urandom >c"}
        told = await toolbox.call("d", "execute_command", more)
    assert (good["success"], good.get("limit")) == (True, None)
    assert (told["success"], told["limit"], told["limit_seen_by"]) == (False, "disk", "watch")
    assert 3_000_000 <= told["used"] < 3_100_000
    assert "disk" not in handle.details["unheld"]


@pytest.mark.parametrize("kind", ["process", *AWAY[:1]])
async def test_what_is_too_much_can_be_removed_again(kind: str, yard: Yard) -> None:
    adapter = yard.adapter(kind)
    runs = (
        *("head -c 6000000 /dev/urandom >big", "sleep 0.3; ls", "sleep 0.3; rm big", "sleep 0.3"),
        "head -c 6000000 /dev/urandom >big",
    )
    told = []
    async with limited(adapter, yard.spec(limits=Limits(disk_bytes=4 * MIB))) as (_, toolbox):
        for number, run in enumerate(runs):
            told.append(await toolbox.call(f"c{number}", "execute_command", {"command": run}))
    assert [call.get("limit") for call in told] == ["disk", None, None, None, "disk"]
    assert [call["success"] for call in told[1:4]] == [True, True, True]


@pytest.mark.parametrize("kind", [VM])
async def test_what_a_machine_has_not_is_named_without_a_false_figure(
    kind: str, yard: Yard
) -> None:
    limits = Limits(memory_bytes=300 * MIB, disk_bytes=2 * MIB)
    async with limited(yard.adapter(kind), yard.spec(limits=limits)) as (_, toolbox):
        write = {"command": "truncate -s 9M hole; head -c 3000000 /dev/urandom >c"}
        grown = await toolbox.call("w", "execute_command", write)
        hog = "python3 -c 'x = bytearray(b\"x\") * (1 << 28)'"
        killed = await toolbox.call("c", "execute_command", {"command": hog, "timeout_s": 60})
        wide = "python3 -c 'x = bytearray(1 << 32)'"
        refused = await toolbox.call("d", "execute_command", {"command": wide, "timeout_s": 60})
    assert (grown["success"], grown["limit"], grown["limit_seen_by"]) == (False, "disk", "watch")
    assert 3_000_000 <= grown["used"] < 3_100_000
    hole = (yard.workspace / "hole").stat()
    assert (hole.st_size, hole.st_blocks) == (9 * MIB, 0)
    assert [each.name for each in yard.workspace.iterdir()] == ["hole"]
    for told, seen_by in ((killed, "guest"), (refused, "output")):
        assert (told["error"], told["limit"], told["limit_seen_by"]) == ("LIMIT", "memory", seen_by)
        assert "the limit `memory` was reached: 300 MiB; use less" in told["message"]
