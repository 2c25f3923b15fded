"""A toolbox whose engine was killed before it noted it: ended by its mark, by an ordinary user too.

The toolbox shows its environment to root alone.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
from patchyard.clients.process import ProcessRef
from patchyard.contracts.environment import Environment
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Mount
from patchyard.registry import ENVIRONMENTS, load

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

NOTED = ("init", "monitor", "root")  # what is known of it once it has answered
KINDS = [ExecutionEnvironment.HOST, ExecutionEnvironment.PROCESS]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_toolbox_that_no_note_names_is_ended(
    ordinary: Path, kind: ExecutionEnvironment
) -> None:
    station = Station(
        runtime=ordinary / "run",
        new_id=SystemClock().new_id,
        search_path=os.environ["PATH"],
        home=str(ordinary),
    )
    (ordinary / "work").mkdir()
    place = str(ordinary / "work")
    workspace = Mount(source=place, target=place, is_writable=True)
    adapter: Environment = load(ENVIRONMENTS[kind])(station)
    handle = await adapter.start(
        EnvironmentSpec(plan_id="01P", purpose="check", workspace=workspace)
    )
    begun = [ProcessRef(**handle.details[name]) for name in NOTED if name in handle.details]
    assert begun
    assert all(process.is_alive for process in begun)

    early = {name: value for name, value in handle.details.items() if name not in NOTED}
    await adapter.end(replace(handle, details=early))

    assert [process for process in begun if process.is_alive] == []
