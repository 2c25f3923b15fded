"""What an agent made far away becomes files of this machine no further than `disk` allows."""

from pathlib import Path
from typing import Any

import pytest

from environments.limited import limited
from environments.yards import Yard, marks_of
from patchyard.domain.environment import Limits

pytestmark = [pytest.mark.anyio]

MIB = 1024**2
AWAY = [pytest.param(kind, marks=marks_of(kind)) for kind in ("ssh", "ssh-process")]
HOLES = "for each in 1 2 3 4; do truncate -s 2M hole$each; done"
LARGE = "head -c 3000000 /dev/urandom >large; echo small >small"


def taken(workspace: Path) -> int:
    """The bytes that the files of a workspace take on this machine's disk."""
    return sum(each.lstat().st_blocks * 512 for each in workspace.rglob("*"))


async def run(toolbox: Any, call_id: str, command: str) -> Any:
    return await toolbox.call(call_id, "execute_command", {"command": command, "timeout_s": 60})


@pytest.mark.parametrize("kind", AWAY)
async def test_no_more_than_disk_allows_is_written_here(kind: str, yard: Yard) -> None:
    adapter = yard.adapter(kind)
    async with limited(adapter, yard.spec(limits=Limits(disk_bytes=MIB))) as (_, toolbox):
        holes = await run(toolbox, "c", HOLES)
        most = taken(yard.workspace)
        told = await run(toolbox, "d", LARGE)
        again = await run(toolbox, "e", "ls large")
        most = max(most, taken(yard.workspace))
        gone = await run(toolbox, "f", "rm large; echo more >more")
    assert most <= MIB
    assert holes["success"], holes
    assert [(yard.workspace / f"hole{n}").stat().st_size for n in range(1, 5)] == [2 * MIB] * 4
    assert (told["success"], told["error"], told["limit"]) == (False, "LIMIT", "disk"), told
    assert told["left_out"] == ["large (no room: the limit `disk` is 1 MiB)"]
    assert (yard.workspace / "small").read_text() == "small\n"
    assert not (yard.workspace / "large").exists()
    assert (again["success"], again.get("limit"), again["left_out"]) == (
        True,
        None,
        told["left_out"],
    )
    assert (gone["success"], "left_out" in gone) == (True, False)
    assert (yard.workspace / "more").exists()
