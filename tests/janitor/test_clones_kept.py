"""Clones are returned when no plan and no project needs them, and never with work in them."""

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from engine.worksite import ADD, Worksite
from forges import git, upstream
from patchyard.clients.clones import Clones
from patchyard.domain.holdings import STREAM
from patchyard.domain.project import Project
from patchyard.domain.retention import Family, Retention, Verdict
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.janitor import Janitor

pytestmark = pytest.mark.anyio

LATE = 3.0 * 3600


@pytest.fixture
def top(site: Worksite, tmp_path: Path) -> Path:
    """A clone that was asked for three hours ago."""
    shop = upstream(tmp_path / "forge/shop.git")
    clones = Clones(site.folder / "home", os.environ)
    made = clones.bring(f"file://{shop}", most_bytes=1024**3).top
    before = made.stat().st_mtime - LATE
    os.utime(made.parent.parent / f".{made.parent.name}.used", (before, before))
    return made


async def judged(site: Worksite, *, is_dry: bool = False) -> Verdict:
    async with site.open() as (equipment, _):
        sweep = await Janitor(equipment, kept=Retention(), is_dry=is_dry).sweep()
    return next(each.verdict for each in sweep.things if each.verdict.found.family == Family.CLONE)


async def test_a_clone_that_none_needs_goes(site: Worksite, top: Path) -> None:
    assert (await judged(site)).may_go
    assert not top.parent.exists()
    assert [*top.parent.parent.iterdir()] == []


async def test_a_clone_of_a_project_stays(site: Worksite, top: Path) -> None:
    async with site.open() as (equipment, _):
        catalogue = Catalogue(equipment.store.journal, equipment.clock)
        await catalogue.create_project(Project(name="shop", repository=str(top)))
    verdict = await judged(site)
    assert (verdict.may_go, verdict.reason) == (False, "a plan needs it")
    assert [each.name for each in top.parent.iterdir() if each.is_dir()] == [top.name]


async def test_projects_that_cannot_be_read_keep_each_clone_and_end_no_sweep(
    site: Worksite, top: Path
) -> None:
    async with site.open() as (equipment, _):
        catalogue = Catalogue(equipment.store.journal, equipment.clock)
        await catalogue.create_project(Project(name="shop", repository=str(top)))
    database = site.folder / "home/patchyard.db"
    _changed(database, "UPDATE events SET body = 'x' || body WHERE stream = ?")
    async with site.open() as (equipment, _):
        sweep = await Janitor(equipment, kept=Retention()).sweep()
    (said,) = sweep.damaged
    assert said.startswith("the projects: ")
    assert all(each.verdict.may_go is False for each in sweep.things)
    assert [each.name for each in top.parent.iterdir() if each.is_dir()] == [top.name]
    _changed(database, "UPDATE events SET body = substr(body, 2) WHERE stream = ?")


def _changed(database: Path, statement: str) -> None:
    """Change the events of projects behind the engine's back."""
    with sqlite3.connect(database) as connection:
        connection.execute(statement, (STREAM,))
    connection.close()


async def test_a_clone_of_a_plan_stays(site: Worksite, top: Path) -> None:
    asked = replace(site.asked(ADD), repository=str(top), ref="HEAD")
    async with site.open() as (_, workflow):
        await site.made(workflow, asked)
    assert (await judged(site)).reason == "a plan needs it"


@pytest.mark.parametrize("is_packed", [True, False])
async def test_a_clone_with_a_branch_in_it_stays(
    site: Worksite, top: Path, *, is_packed: bool
) -> None:
    git(top, "branch", "patchyard/01abc")
    if is_packed:
        git(top, "pack-refs", "--all")
    verdict = await judged(site)
    assert (verdict.may_go, "a branch lies in it" in verdict.reason) == (False, True)
    git(top, "branch", "-D", "patchyard/01abc")
    (top / "01ABC.patch").write_text("")
    assert "a patch lies in it" in (await judged(site)).reason
    (top / "01ABC.patch").unlink()
    assert (await judged(site, is_dry=True)).may_go
