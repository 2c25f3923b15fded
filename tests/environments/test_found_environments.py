"""Which environments there are, while other processes end theirs."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients.berths import ADOPTED, Berth, Station
from patchyard.clients.clock import SystemClock
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.environments import keeping
from patchyard.environments.keeping import EnvironmentKeeper

pytestmark = pytest.mark.anyio


async def test_an_environment_that_ends_while_it_is_looked_at_is_not_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SystemClock()
    ending, staying = (tmp_path / clock.new_id() for _ in range(2))
    for folder in (ending, staying):
        folder.mkdir()
    noted = keeping._noted

    def ends(berth: Path) -> Any:
        shutil.rmtree(ending, ignore_errors=True)
        return noted(berth)

    monkeypatch.setattr(keeping, "_noted", ends)
    station = Station(runtime=tmp_path, new_id=clock.new_id, search_path="/usr/bin", home="/root")
    found = await EnvironmentKeeper(station, {}).found()
    assert [each.name for each in found] == [staying.name]


async def test_of_one_plan_nothing_of_others_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SystemClock()
    station = Station(runtime=tmp_path, new_id=clock.new_id, search_path="/usr/bin", home="/root")
    plans = [clock.new_id() for _ in range(2)]
    for plan_id in plans:
        berth = Berth(station, clock.new_id(), plan_id=plan_id)
        berth.handle(ExecutionEnvironment.PROCESS, "/srv", {})
        berth.close_listener()
    asked: list[str] = []

    def answers(path: Path) -> bool:
        asked.append(path.parent.name)
        return False

    monkeypatch.setattr(keeping, "answers", answers)
    (found,) = await EnvironmentKeeper(station, {}).found_of(plans[0])
    assert not await EnvironmentKeeper(station, {}).found_of(plans[0], besides=[found.name])
    assert (found.plan_id, asked) == (plans[0], [found.name])


@pytest.mark.parametrize("is_torn", [False, True], ids=["whole", "torn"])
async def test_one_that_was_given_to_a_plan_is_its_own_once_that_is_noted_whole(
    tmp_path: Path, is_torn: bool
) -> None:
    clock = SystemClock()
    station = Station(runtime=tmp_path, new_id=clock.new_id, search_path="/usr/bin", home="/root")
    pooled, plan_id = (clock.new_id() for _ in range(2))
    berth = Berth(station, clock.new_id(), plan_id=pooled)
    handle = berth.handle(ExecutionEnvironment.PROCESS, "/srv", {})
    berth.close_listener()
    keeper = EnvironmentKeeper(station, {})
    os.utime(berth.directory, (0, 0))
    (seen,) = await keeper.found()
    await keeper.adopt(handle, plan_id)
    if is_torn:  # killed while it wrote
        note = berth.directory / ADOPTED
        note.write_bytes(note.read_bytes()[:20])
    assert bool(await keeper.found_of(plan_id)) is not is_torn
    assert not await keeper.give_back(seen, unused_since=seen.used)  # it was looked at before
    assert bool(await keeper.found_of(pooled)) is is_torn


async def test_one_that_a_killed_engine_left_frozen_does_not_count_as_running(
    tmp_path: Path,
) -> None:
    clock = SystemClock()
    station = Station(runtime=tmp_path, new_id=clock.new_id, search_path="/usr/bin", home="/root")
    group = tmp_path / "group"
    group.mkdir()
    berth = Berth(station, clock.new_id(), plan_id=clock.new_id())
    berth.handle(ExecutionEnvironment.PROCESS, "/srv", {"group": [str(group)]})
    try:
        for state, is_live in (("THAWED\n", True), ("FROZEN\n", False)):
            (group / "freezer.state").write_text(state)
            (found,) = await EnvironmentKeeper(station, {}).found()
            assert found.is_live is is_live
    finally:
        berth.close_listener()
