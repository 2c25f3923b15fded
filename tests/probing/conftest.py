import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchyard.cli.outcome import visible
from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
from patchyard.clients.identity import agent_identity
from patchyard.clients.mounts import is_mounted, unmount
from patchyard.probing.probe import Surroundings
from patchyard.probing.trees import Ground
from patchyard.workspaces.handover import GitHandOver
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.selection import select_workspaces
from probing.halls import Hall


@pytest.fixture
def hall() -> Iterator[Hall]:
    """An engine whose folders the agent's user can pass through; nothing is left in them."""
    folder = Path(tempfile.mkdtemp(prefix="hall-"))
    folder.chmod(0o711)
    state, plans = folder / "state", folder / "plans"
    state.mkdir(mode=0o700)
    agent = agent_identity()
    trees = GitTrees(state, uid=agent.uid, gid=agent.gid, environ=os.environ)
    new_id = SystemClock().new_id
    station = Station(
        runtime=state / "run",
        new_id=new_id,
        search_path=os.environ["PATH"],
        home=os.environ["HOME"],
        private=(str(state),),
        public=folder / "public",
    )
    around = Surroundings(
        identity=(agent.uid, agent.gid) if agent.is_switched else None,
        state=state,
        runtime=station.runtime,
        show=visible,
        ground=Ground(
            trees=trees,
            workspaces=select_workspaces(trees, plans),
            handover=GitHandOver(trees),
        ),
        new_id=new_id,
    )
    yield Hall(folder=folder, station=station, around=around)
    left = [path.name for path in (*station.runtime.glob("0*"), *state.glob("patchyard-probe-*"))]
    for root in plans.glob("*/root"):
        if is_mounted(root):
            unmount(root)
    subprocess.run(["chmod", "-R", "u+rwX", "--", str(folder)], check=True)
    shutil.rmtree(folder)
    assert left == []
