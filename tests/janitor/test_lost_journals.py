"""The janitor where the journal, or a line of it, is lost: what a plan left is never garbage."""

import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

from engine.worksite import Worksite
from janitor.passing import gone, left, stopped, swept, tree, worked
from patchyard.domain.errors import JournalBroken
from patchyard.domain.plan import State
from patchyard.domain.retention import Family
from patchyard.engine.finding import find_plan, list_plans

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

PARTS = ("patchyard.db", "patchyard.db-wal")


def changed(site: Worksite, statement: str, plan_id: str) -> None:
    """Change the database behind everybody's back."""
    connection = sqlite3.connect(site.folder / "home/patchyard.db")
    connection.execute(statement, (plan_id,))
    connection.commit()
    connection.close()


def set_aside(site: Worksite) -> Path:
    """Take the database away; return the folder that has it now."""
    backup = Path(tempfile.mkdtemp(dir=site.folder))
    for name in PARTS:
        if (site.folder / "home" / name).exists():
            shutil.move(site.folder / "home" / name, backup / name)
    return backup


def bring_back(site: Worksite, backup: Path) -> None:
    """Put a database in the place of the one that is there."""
    for name in PARTS:
        (site.folder / "home" / name).unlink(missing_ok=True)
        (site.folder / "home/patchyard.db-shm").unlink(missing_ok=True)
        if (backup / name).exists():
            shutil.copy(backup / name, site.folder / "home" / name)


async def test_a_plan_whose_line_is_lost_is_listed_keeps_its_files_and_gets_it_anew(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await stopped(site, workflow)
        before = await equipment.store.summaries.summaries()
    changed(site, "DELETE FROM summaries WHERE stream = ?", plan_id)

    async with site.open() as (equipment, _):
        summaries = equipment.store.summaries
        (row,) = await list_plans(summaries, repository=None)
        assert row["plan_id"] == plan_id
        assert "damaged" in row["task"]
        assert await find_plan(summaries, plan_id[:20], repository="/") == plan_id

        await swept(equipment, days=80, is_dry=True)
        assert await summaries.summaries() == [(plan_id, {})]
        returned = gone(await swept(equipment, days=80))

        assert Family.WORKSPACE not in returned
        assert Family.CHECKPOINTS not in returned
        assert left(site) == [plan_id]

        assert await summaries.summaries() == before


async def test_a_home_of_plans_without_their_database_is_refused_and_left(
    site: Worksite, tmp_path: Path
) -> None:
    async with site.open() as (_, workflow):
        await worked(site, workflow)
    elsewhere = Worksite(folder=tmp_path / "elsewhere")
    async with elsewhere.open():
        pass
    backup = set_aside(site)
    database = site.folder / "home/patchyard.db"

    await require_refused(site)
    database.touch()
    await require_refused(site)
    shutil.copy(elsewhere.folder / "home/patchyard.db", database)
    await require_refused(site)

    bring_back(site, backup)
    async with site.open() as (equipment, _):
        assert gone(await swept(equipment, days=1)) == {}


async def require_refused(site: Worksite) -> None:
    before = tree(site.folder / "home"), left(site)
    with pytest.raises(JournalBroken, match="plans have left files in") as caught:
        async with site.open():
            raise AssertionError("it is open")
    assert str(site.folder / "home/patchyard.db") in caught.value.message
    assert "backup" in caught.value.hint
    assert (tree(site.folder / "home"), left(site)) == before


async def test_files_of_plans_that_an_older_database_does_not_know_are_kept(
    site: Worksite,
) -> None:
    async with site.open() as (_, workflow):
        await worked(site, workflow)
    older = set_aside(site)
    bring_back(site, older)
    async with site.open() as (_, workflow):
        unknown = await stopped(site, workflow)
    newer = set_aside(site)
    bring_back(site, older)

    async with site.open() as (equipment, _):
        sweep = await swept(equipment, days=60)

    returned = gone(sweep)
    assert unknown in left(site)
    assert Family.CHECKPOINTS not in returned
    assert Family.STORE not in returned
    assert Family.BASE not in returned
    assert any(unknown in said for said in sweep.damaged)
    bring_back(site, newer)
    async with site.open() as (_, workflow):
        state = await workflow.run(unknown)
        assert state.state == State.COMPLETE


async def test_what_is_left_of_a_plan_that_was_removed_goes(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await worked(site, workflow)
        checkpoints = site.folder / "home/checkpoints" / plan_id
        shutil.copytree(checkpoints, site.folder / "kept")
        await swept(equipment, days=91)
        shutil.copytree(site.folder / "kept", checkpoints)

        assert gone(await swept(equipment, days=91)) == {Family.CHECKPOINTS: [plan_id]}
