"""A plan that is resumed after somebody deleted what it stands on."""

import shutil
from collections.abc import Mapping
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, call, done
from patchyard.domain.errors import JournalBroken, ModelFailed, Unavailable
from patchyard.domain.plan import Phase, State
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


async def stopped(site: Worksite, workflow: Workflow, *calls: Mapping[str, Any]) -> str:
    """Make a plan whose model gave up after its calls, or one that makes a file."""
    asked = site.asked(*(calls or (ADD,)))
    site.script(calls or (ADD,))
    plan_id = await site.made(workflow, asked)
    with pytest.raises(ModelFailed):
        await workflow.run(plan_id)
    return plan_id


async def test_a_deleted_workspace_comes_back_from_its_last_checkpoint(site: Worksite) -> None:
    async with site.open() as (_, workflow):
        plan_id = await stopped(site, workflow)
    shutil.rmtree(next((site.folder / "workspaces").rglob(plan_id)))
    site.script([ADD, done()])

    async with site.open() as (_, workflow):
        state = await workflow.run(plan_id)

    assert (state.phase, state.state) == (Phase.EXECUTE, State.COMPLETE)
    assert state.changeset is not None
    assert state.changeset.files == 1


async def test_a_workspace_deleted_with_its_checkpoints_stops_the_plan(site: Worksite) -> None:
    keeping = call("write_file", path="kept.txt", content="kept")
    async with site.open() as (equipment, workflow):
        plan_id = await stopped(site, workflow, keeping, ADD)
        shutil.rmtree(next((site.folder / "workspaces").rglob(plan_id)))
        shutil.rmtree(next((site.folder / "home" / "checkpoints").rglob(plan_id)))

        with pytest.raises(JournalBroken, match="missing"):
            await workflow.run(plan_id)

        state = (await site.ledger(equipment, plan_id)).state
        assert (state.phase, state.state) == (Phase.EXECUTE, State.ERRORED)


async def test_a_deleted_store_and_its_checkouts_come_back(site: Worksite) -> None:
    async with site.open() as (_, workflow):
        plan_id = await stopped(site, workflow)
    for name in ("trees", "bases"):
        shutil.rmtree(site.folder / "home" / name)
    site.script([ADD, done()])

    async with site.open() as (_, workflow):
        state = await workflow.run(plan_id)

    assert (state.phase, state.state) == (Phase.EXECUTE, State.COMPLETE)
    assert state.changeset is not None
    assert state.changeset.files == 1


async def test_a_store_that_cannot_come_back_stops_the_plan_before_anything(
    site: Worksite,
) -> None:
    (site.repository / "a.txt").write_text("uncommitted\n")
    async with site.open() as (_, workflow):
        plan_id = await stopped(site, workflow)
    for name in ("trees", "bases"):
        shutil.rmtree(site.folder / "home" / name)
    (site.repository / "a.txt").write_text("newer\n")

    async with site.open() as (_, workflow):
        with pytest.raises(Unavailable, match="base of this plan was deleted"):
            await workflow.run(plan_id)
