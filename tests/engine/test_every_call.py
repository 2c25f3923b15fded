"""All calls of execute go through the tool runner, and what they did is in the change set (B5)."""

from collections import Counter

import pytest

from engine.worksite import Worksite, call
from patchyard.domain.events import ToolCallRequested, ToolCallSettled, TurnTaken
from patchyard.domain.plan import Phase, State
from patchyard.engine.handing import Handing
from patchyard.tools.toolset import NINE

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

STEPS = (
    call("list_directory", path="."),
    call("read_file", path="a.txt"),
    call("search_files", query="a.txt"),
    call("grep_search", pattern="one"),
    call("codebase_search", query="one"),
    call("write_file", path="new.txt", content="new\n"),
    call("search_replace", path="a.txt", old_string="one", new_string="two"),
    call("delete_file", path="gone.txt"),
    call("execute_command", command="echo made > made.txt"),
)
"""One call of each of the nine, a turn each."""


@pytest.fixture
def files() -> dict[str, str]:
    return {"a.txt": "one\n", "gone.txt": "gone\n"}


async def test_each_call_is_routed_journalled_and_settled_once_in_the_order_it_was_wanted(
    site: Worksite,
) -> None:
    wanted = [step["calls"][0]["name"] for step in STEPS]
    assert set(wanted) == set(NINE)
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(*STEPS, validate=("",), setup=("",)))
        await workflow.strategize(plan_id)
        before = len(site.heard)
        state = await workflow.execute(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        _, changeset = await Handing(equipment, ledger).changeset()
    heard = site.heard[before:]
    calls = [event for event in heard if isinstance(event, ToolCallRequested)]
    settled = Counter(event.call_id for event in heard if isinstance(event, ToolCallSettled))
    assert [each.name for each in calls] == wanted
    assert [(str(each.kind), each.level) for each in calls] == [("process", "plan")] * len(wanted)
    assert all(each.environment_id for each in calls)
    assert settled == Counter(each.call_id for each in calls)
    names = {each.call_id: each.name for each in calls}
    assert {each.path: names[each.call_id or ""] for each in changeset.changes} == {
        "a.txt": "search_replace",
        "gone.txt": "delete_file",
        "made.txt": "execute_command",
        "new.txt": "write_file",
    }
    assert (state.phase, state.state) == (Phase.EXECUTE, State.COMPLETE)


async def test_the_model_takes_as_many_steps_as_it_wants_and_hears_of_each(
    site: Worksite,
) -> None:
    reads = [call("read_file", path="a.txt", start_line=1) for _ in range(2)]
    writes = [call("write_file", path=f"{number}.txt", content="x\n") for number in range(10)]
    async with site.open() as (equipment, workflow):
        asked = site.asked(*reads, *writes, validate=("",), setup=("",))
        plan_id = await site.made(workflow, asked)
        await workflow.strategize(plan_id)
        before = len(site.heard)
        await workflow.execute(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        _, changeset = await Handing(equipment, ledger).changeset()
    turns = [event.turn for event in site.heard[before:] if isinstance(event, TurnTaken)]
    assert turns == list(range(1, 14))  # twelve steps, and the end
    assert {each.path for each in changeset.changes} == {f"{n}.txt" for n in range(10)}
