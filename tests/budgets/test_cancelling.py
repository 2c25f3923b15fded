"""A cancel in the middle of a request or of a command: over within 3 s, with nothing left of it.

3 s is what is promised, whatever else the machine does.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from engine.worksite import Worksite, call
from models.scenes import set_up
from patchyard.assembly import open_equipment
from patchyard.domain.booking import Account
from patchyard.domain.events import Event, ToolCallRequested
from patchyard.domain.plan import State
from patchyard.domain.spending import Reserved
from patchyard.engine.owning import Cancelled
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of
from timing import promised

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

PROMISED_S = promised(3.0)
SLEEP = f"sleep {4_711_000 + os.getpid()}"  # of no other run of these tests
TREE = f"{SLEEP} & (setsid {SLEEP} &) ; touch started; {SLEEP}"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, {"a.txt": "one\n"})
    yield made
    await made.clear()


def noticing(wanted: type[Event]) -> tuple[asyncio.Event, Callable[[Event], None]]:
    seen = asyncio.Event()
    return seen, lambda event: seen.set() if isinstance(event, wanted) else None


async def cancelled(environ: dict[str, str], plan_id: str) -> None:
    """Cancel as another command does, within what is promised."""
    async with open_equipment(environ) as other:
        async with asyncio.timeout(PROMISED_S):
            await Workflow(other).cancel(plan_id)


async def test_a_cancel_while_a_model_thinks_leaves_it_and_counts_it_as_all_it_could_cost(
    tmp_path: Path,
) -> None:
    scene = set_up("chat", tmp_path)
    scene.server.faults = ["mute"]
    async with scene.server.running() as url:
        environ = scene.configure(url)
        asked = Asked(
            task="t", repository=str(scene.site.repository), model="house:tiny", kind="process"
        )
        sent, notice = noticing(Reserved)
        async with open_equipment(environ) as equipment:
            workflow = Workflow(equipment, watching=Watching(on_event=notice))
            plan_id = await workflow.create(spec_of(asked, environ))
            working = asyncio.ensure_future(workflow.run(plan_id))
            await sent.wait()
            await scene.server.asked.wait()
            await cancelled(environ, plan_id)
            with pytest.raises(Cancelled):
                await working
            state = (await scene.site.ledger(equipment, plan_id)).state
            tally = (await equipment.store.purse.tallies([Account()]))[Account()]
            assert await equipment.store.purse.holders() == {}
    await scene.site.clear()
    assert (state.state, state.held) == (State.CANCELLED, None)
    assert tally.spent.tokens == state.spent.tokens > 0


async def test_a_cancel_during_a_command_ends_its_whole_tree(site: Worksite) -> None:
    called, notice = noticing(ToolCallRequested)
    async with site.open() as (equipment, _):
        workflow = Workflow(equipment, watching=Watching(on_event=notice))
        hang = call("execute_command", command=TREE, timeout_s=500)
        plan_id = await site.made(workflow, site.asked(hang))
        working = asyncio.ensure_future(workflow.run(plan_id))
        await called.wait()
        await asyncio.to_thread(_wait_for, lambda: len(_sleepers()) == 3)
        await cancelled(site.environ, plan_id)
        with pytest.raises(Cancelled):
            await working
        state = (await site.ledger(equipment, plan_id)).state
    assert (state.state, state.environments) == (State.CANCELLED, {})
    assert _sleepers() == []


def _wait_for(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.02)


def _sleepers() -> list[str]:
    """The processes of the command, wherever on this machine they are."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if words[:2] == SLEEP.split():
            found.append(place.parent.name)
    return found
