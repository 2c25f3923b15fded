"""Which environments there are, while other processes end theirs."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
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
