"""The janitor's passes by themselves, and the bodies it looks through."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.worksite import Worksite
from patchyard import upkeep
from patchyard.domain.errors import Unavailable
from patchyard.domain.events import Noted, PlanCreated, ToolCallSettled
from patchyard.domain.plan import PlanSpec
from patchyard.domain.retention import Family, Found, Removed, Verdict
from patchyard.domain.state import PlanState
from patchyard.engine.equipment import Equipment
from patchyard.engine.janitor import Janitor, Returned, Sweep
from patchyard.engine.ledger import Ledger
from patchyard.engine.rows import body_of
from patchyard.engine.verifying import verify

pytestmark = pytest.mark.anyio


async def told(
    site: Worksite, monkeypatch: pytest.MonkeyPatch, came: Sweep | Exception
) -> list[str]:
    """Let a pass that is due come to `came`; return what is said of it."""
    said: list[str] = []

    async def sweep(_: Janitor) -> Sweep:
        if isinstance(came, Exception):
            raise came
        return came

    monkeypatch.setattr(Janitor, "sweep", sweep)
    async with site.open() as (equipment, _):
        mark = site.folder / "home" / upkeep.MARK
        mark.touch()
        os.utime(mark, (1, 1))
        async with upkeep.tidied(equipment, site.environ, told=said.append):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        said.append("dated" if time.time() - mark.stat().st_mtime < 3600 else "due again")
    return said


async def test_a_pass_that_fails_is_told_and_due_again(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = await told(site, monkeypatch, Unavailable("no disk"))
    assert said == ["the janitor came to no end: no disk; `agents gc` says more", "due again"]


async def test_what_is_in_its_way_is_told(site: Worksite, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Found(family=Family.BASE, name="b", place="/b")
    verdict = Verdict(found=found, may_go=True, reason="")
    sweep = Sweep(things=(Returned(verdict=verdict, obstacle="a mount"),), is_dry=False)
    said = await told(site, monkeypatch, sweep)
    assert said == ["the janitor could not return everything: a mount; see `agents gc`", "dated"]


async def test_only_one_process_passes_at_a_time(site: Worksite) -> None:
    async with site.open() as (equipment, _):
        mark = site.folder / "home" / upkeep.MARK
        mark.touch()
        os.utime(mark, (1, 1))
        said: list[str] = []
        with upkeep._due(mark, said.append) as first, upkeep._due(mark, said.append) as second:
            assert first is not None
            assert second is None
        assert equipment.keepers
        assert not said


@pytest.mark.parametrize("make", [lambda mark: mark.symlink_to("gone"), Path.mkdir])
async def test_a_mark_that_is_no_file_is_told_and_stops_nothing(
    site: Worksite, make: Callable[[Path], object]
) -> None:
    said: list[str] = []
    async with site.open() as (equipment, _):
        mark = site.folder / "home" / upkeep.MARK
        make(mark)
        async with upkeep.tidied(equipment, site.environ, told=said.append):
            assert len(said) == 1

    assert str(mark) in said[0]


async def plan(equipment: Equipment, *, text: str) -> Ledger:
    """Make a plan with an event so large that all of it lies beside, and a body beside that."""
    state = PlanState(plan_id=equipment.clock.new_id())
    ledger = Ledger(equipment.store, equipment.clock, state)
    await ledger.record(PlanCreated(spec=PlanSpec(task="t", repository="/r")))
    settled = ToolCallSettled(
        call_id="c", success=True, message=text + "m" * 20_000, data=body_of(text + "x" * 9000)
    )
    await ledger.record(settled, Noted(text="end"))
    return ledger


async def test_a_body_that_only_another_body_names_stays(site: Worksite) -> None:
    async with site.open() as (equipment, _):
        gone, kept = [await plan(equipment, text=text) for text in "ab"]
        removed = Removed(plan_id=gone.plan_id, events=3, head=await gone.head(), at=1.0)
        await equipment.pruning.forget(removed)
        await equipment.pruning.forget(removed)

        assert await equipment.pruning.sweep_bodies() > 29_000
        assert await equipment.pruning.sweep_bodies() == 0

        checked = await verify(equipment.store.journal, kept.plan_id)
        assert (checked.problems, checked.blobs) == ((), 1)
        assert await equipment.pruning.removed() == [removed]
