"""What environments are made with: listed, and returned once none has started from it for long."""

import os
import time
from pathlib import Path

import pytest

from engine.worksite import Worksite
from janitor.passing import gone, running, stopped, swept, worked
from patchyard.clients.machine_shelf import MACHINES
from patchyard.clients.removal import set_aside
from patchyard.domain.keeping import keep_of, rules_of
from patchyard.domain.retention import Family
from patchyard.engine.janitor import Janitor
from patchyard.environments.furniture import taken_away

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

STATE = "state-0123456789abcdef"


def shelf_of(site: Worksite) -> Path:
    return site.folder / "home/run/toolbox"


def saved(site: Worksite) -> Path:
    """Put a machine's saved state on the shelf, beside things that are none."""
    folder = shelf_of(site) / MACHINES
    folder.mkdir(parents=True, exist_ok=True)
    for name in (STATE, "state-of-mine", ".lock"):
        (folder / name).write_bytes(b"x" * 100_000)
    (folder / "tmpabcd_fgh").mkdir()
    (folder / "tmpabcd_fgh/state").touch()
    return folder


async def test_they_are_listed_and_go_after_a_fortnight_and_are_made_again(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        await worked(site, workflow)
        folder = saved(site)
        toolboxes = [each.name for each in shelf_of(site).iterdir() if each.name != MACHINES]
        assert len(toolboxes) == 1
        sweep = await swept(equipment, days=13, is_dry=True)
        listed = {each.verdict.found.name: each for each in sweep.things}
        assert listed[STATE].bytes >= 100_000
        assert not listed[STATE].verdict.may_go
        assert not listed[toolboxes[0]].verdict.may_go
        returned = gone(await swept(equipment, days=15))
        assert (returned[Family.MACHINE], returned[Family.TOOLBOX]) == ([STATE], toolboxes)
        assert "tmpabcd_fgh" in returned[Family.TEMPORARY]
        assert sorted(each.name for each in folder.iterdir()) == [".lock", "state-of-mine"]
        await worked(site, workflow)
        assert (shelf_of(site) / toolboxes[0]).is_dir()


async def test_none_goes_while_an_environment_runs(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        await running(equipment, await stopped(site, workflow))
        saved(site)
        returned = gone(await swept(equipment, days=15))
    assert not {Family.MACHINE, Family.TOOLBOX}.intersection(returned)


async def test_settings_say_how_long(site: Worksite) -> None:
    retention = rules_of([keep_of({"machines": "1h"}, ())]).retention
    async with site.open() as (equipment, _):
        place = saved(site) / STATE
        assert gone(await Janitor(equipment, kept=retention).sweep()) == {}
        os.utime(place, (time.time() - 7200,) * 2)
        assert gone(await Janitor(equipment, kept=retention).sweep()) == {Family.MACHINE: [STATE]}


def test_what_an_environment_starts_from_at_that_moment_stays(tmp_path: Path) -> None:
    place = tmp_path / "shelf" / STATE
    place.parent.mkdir()
    place.touch()
    os.utime(place, (1.0, 1.0))

    def used_meanwhile(there: Path) -> Path:
        os.utime(there)
        return set_aside(there)

    assert not taken_away(place, 2.0, aside=used_meanwhile)
    assert place.exists()
    assert not taken_away(place, 2.0)  # it is young now
    os.utime(place, (1.0, 1.0))
    assert taken_away(place, 2.0)
    assert taken_away(place, 2.0)  # another janitor was quicker
    assert not any(place.parent.iterdir())
