"""A plan whose journal is not what was written: shown, and never written to."""

import sqlite3

import pytest

from engine.worksite import ADD, Worksite
from patchyard.domain.errors import JournalBroken
from patchyard.engine.forking import fork
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.replaying import replay

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


async def plan_with(site: Worksite, change: str) -> str:
    """Make a plan and change its journal behind its back; return the plan's id."""
    async with site.open() as (_, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        await workflow.strategize(plan_id)
    changed(site, change, plan_id)
    return plan_id


def changed(site: Worksite, change: str, plan_id: str) -> None:
    """Change the database as a meddler would."""
    connection = sqlite3.connect(site.folder / "home/patchyard.db")
    connection.execute(change, (plan_id,))
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "UPDATE events SET body = replace(body, 'do it', 'do is') WHERE stream = ?",
            "event 1 .PlanCreated. is not as it was written",
        ),
        ("DELETE FROM events WHERE stream = ? AND version = 2", "event 2 is missing"),
        ("UPDATE events SET at = at + 1 WHERE stream = ? AND version = 3", "event 3"),
    ],
)
async def test_nobody_goes_on_with_it(site: Worksite, change: str, said: str) -> None:
    plan_id = await plan_with(site, change)
    async with site.open() as (equipment, workflow):
        before = len(await equipment.store.journal.read(plan_id))
        with pytest.raises(JournalBroken, match=said) as caught:
            await workflow.run(plan_id)
        assert (caught.value.exit_code, caught.value.code) == (1, "journal_broken")
        assert "plan verify" in caught.value.hint
        with pytest.raises(JournalBroken):
            async with PlanLifecycleService(equipment).owned(plan_id):
                raise AssertionError("it is owned")
        for made in (fork(equipment, plan_id), replay(equipment, workflow, plan_id)):
            with pytest.raises(JournalBroken):
                await made
        assert len(await equipment.store.journal.read(plan_id)) == before


async def test_one_of_a_version_without_hashes_is_taken_up(site: Worksite) -> None:
    plan_id = await plan_with(site, "UPDATE events SET hash = '' WHERE stream = ?")
    changed(site, "DELETE FROM heads WHERE stream = ?", plan_id)
    (site.folder / "home/patchyard.heads" / plan_id).unlink()
    async with site.open() as (_, workflow):
        state = await workflow.run(plan_id)
    assert state.changeset is not None
