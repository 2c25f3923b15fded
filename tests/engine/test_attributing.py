"""Which call a change is attributed to, where calls follow each other at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from engine.worksite import Worksite, call
from patchyard.domain.action import parse_action
from patchyard.domain.events import ToolCallRequested
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.handing import Handing
from patchyard.intake import Asked, take_in

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

TICK_S = 0.012  # longer than the tick of any kernel's clock


@pytest.fixture
def files() -> dict[str, str]:
    return {"old.txt": "".join(f"line {number}\n" for number in range(20)), "gone.txt": "gone\n"}


def write(path: str, content: str = "text\n") -> Mapping[str, Any]:
    return {"write_file": {"path": path, "content": content}}


def run(command: str) -> Mapping[str, Any]:
    return {"run": f"sleep {TICK_S}; {command}; sleep {TICK_S}"}


async def attributed(site: Worksite, asked: Asked) -> Mapping[str, int | None]:
    """Carry out what is asked; return by path which call of execute made a change, from 0 on."""
    async with site.open() as (equipment, workflow):
        holdings = await Catalogue(equipment.store.journal, equipment.clock).holdings()
        plan_id = await workflow.create(take_in(asked, site.environ, holdings).spec)
        await workflow.strategize(plan_id)
        before = len(site.heard)
        await workflow.execute(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        _, changeset = await Handing(equipment, ledger).changeset()
    calls = [each.call_id for each in site.heard[before:] if isinstance(each, ToolCallRequested)]
    number = {call_id: index for index, call_id in enumerate(calls)}
    return {
        change.path: None if change.call_id is None else number[change.call_id]
        for change in changeset.changes
    }


ALL_KINDS = (
    write("a.txt"),
    write("b.txt"),
    write("c.txt"),
    run("echo > by.txt"),
    write("after.txt"),
    run("echo more >> a.txt"),
    run("echo > d.txt"),
    write("d.txt"),
    write("b.txt", "other\n"),
    run("mv old.txt new.txt"),
    write("last.txt"),
)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(
            ALL_KINDS,
            {
                "a.txt": 5,
                "after.txt": 4,
                "b.txt": 8,
                "by.txt": 3,
                "c.txt": 2,
                "d.txt": 7,
                "last.txt": 10,
                "new.txt": 9,
            },
            id="tools and commands by turns",
        ),
        pytest.param(
            [run("rm gone.txt"), run("echo > by.txt")],
            {"by.txt": 1, "gone.txt": None},
            id="a command deletes where a later one writes",
        ),
        pytest.param(
            [run("rm gone.txt"), write("b.txt")],
            {"b.txt": 1, "gone.txt": 0},
            id="a command deletes where a tool writes",
        ),
    ],
)
async def test_each_change_names_the_call_that_made_it(
    site: Worksite, steps: Sequence[Mapping[str, Any]], expected: Mapping[str, int | None]
) -> None:
    action = parse_action({"name": "a", "steps": list(steps)})
    asked = Asked(action=action, repository=str(site.repository), kind="process", validate=("",))

    assert await attributed(site, asked) == expected


async def test_a_deletion_names_the_tool_that_made_it_though_a_command_wrote_beside_it(
    site: Worksite,
) -> None:
    asked = site.asked(
        call("delete_file", path="gone.txt"),
        call("read_file", path="old.txt"),
        call("execute_command", command=f"sleep {TICK_S}; echo > by.txt"),
    )

    assert await attributed(site, asked) == {"gone.txt": 0, "by.txt": 2}
