"""Trees that a killed life left: taken away by the next one, or by a cancel."""

import os
from pathlib import Path

import pytest

from engine.worksite import ADD, Worksite
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.codec import to_json
from patchyard.domain.errors import UsageError
from patchyard.domain.events import WorkspaceCreated
from patchyard.engine.grounds import PURPOSES, ground, ground_name
from patchyard.intake import spec_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


def there(ref: WorkspaceRef) -> bool:
    return Path(ref.root).exists()


def mounted(ref: WorkspaceRef) -> bool:
    return os.path.ismount(ref.root)


async def test_a_cancel_takes_away_what_a_kill_left(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        base = await equipment.trees.snapshot(site.repository, ref=None)
        create = equipment.workspaces.create
        left = [
            await create(base, workspace_id=ground_name(plan_id, purpose)) for purpose in PURPOSES
        ]
        own = await create(base, workspace_id=plan_id)
        ledger = await site.ledger(equipment, plan_id)
        await ledger.record(WorkspaceCreated(workspace=to_json(own)))
        await workflow.cancel(plan_id)
        assert not any(map(there, left))
        assert not mounted(own)
        assert (await equipment.workspaces.open(base, own)).is_dir()


async def test_planning_takes_away_the_tree_of_a_life_that_was_killed(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await workflow.create(spec_of(site.asked(ADD), site.environ))
        base = await equipment.trees.snapshot(site.repository, ref=None)
        name = ground_name(plan_id, "plan")
        left = await equipment.workspaces.create(base, workspace_id=name)
        await workflow.strategize(plan_id)
        assert not there(left)


async def test_a_tree_that_could_not_be_made_whole_is_gone_too(site: Worksite) -> None:
    async with site.open() as (equipment, _):
        base = await equipment.trees.snapshot(site.repository, ref=None)
        workspaces = equipment.workspaces
        whole = await workspaces.create(base, workspace_id="whole")
        place = Path(whole.root).parent.with_name("part")
        await workspaces.remove(whole)
        with pytest.raises(UsageError):
            async with ground(workspaces, base, name="part", folders=["a.txt"]):
                pytest.fail("it was lent")
        assert not place.exists()
