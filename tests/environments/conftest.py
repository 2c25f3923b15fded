"""Real environments for the tests of this folder, each ended at the end of its test."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from environments.yards import Adapter, Start, Yard, starting
from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
from patchyard.clients.identity import agent_identity
from patchyard.environments.process import ProcessEnvironment


@pytest.fixture(scope="session")
def copies() -> Iterator[Path]:
    """The toolbox's code compiled once for the session, where the agent can read it."""
    folder = Path(tempfile.mkdtemp(prefix="copies-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def yard(copies: Path) -> Iterator[Yard]:
    folder = Path(tempfile.mkdtemp(prefix="yard-", dir="/tmp"))
    folder.chmod(0o711)
    workspace = folder / "workspace"
    workspace.mkdir()
    identity = agent_identity()
    if identity.is_switched:
        os.chown(workspace, identity.uid, identity.gid)
    station = Station(
        runtime=folder / "runtime",
        new_id=SystemClock().new_id,
        search_path=os.environ["PATH"],
        home=os.environ["HOME"],
        shelf=copies,
        public=copies,
    )
    yield Yard(folder=folder, station=station, workspace=workspace)
    left = sorted(path.name for path in station.runtime.glob("0*"))
    shutil.rmtree(folder)
    assert left == [], "an environment left its folder behind"


@pytest.fixture
def adapter(yard: Yard) -> Adapter:
    """The process kind; the contract's suite asks for each kind in turn."""
    return ProcessEnvironment(yard.station)


@pytest.fixture
async def start(adapter: Adapter) -> AsyncIterator[Start]:
    async with starting(adapter) as function:
        yield function
