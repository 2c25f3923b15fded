"""Real environments for the tests of this folder, each ended at the end of its test."""

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from environments.yards import CARRIED, GVISORS, SSH, Adapter, Start, Yard, starting
from patchyard.clients import container_ends
from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
from patchyard.clients.identity import agent_identity
from patchyard.engine import ends
from patchyard.environments import container, ssh, vm
from patchyard.environments.process import ProcessEnvironment
from services import kernel_folder
from sshds import SshServer, serving_ssh, with_engine


@pytest.fixture(scope="session")
def copies() -> Iterator[Path]:
    """The toolbox's code compiled once for the session, where the agent can read it."""
    folder = Path(tempfile.mkdtemp(prefix="copies-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


DEVIATIONS = {
    **dict.fromkeys((*SSH, *CARRIED), ssh.DEVIATIONS),
    **dict.fromkeys(GVISORS, container.GVISOR_DEVIATIONS),
    "vm": vm.DEVIATIONS,
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a kind does in another way, as it says by the test's name."""
    left_out = [item for item in items if _deviates(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _deviates(item: pytest.Item) -> bool:
    called = getattr(item, "callspec", None)
    given = [each for each in called.params.values() if isinstance(each, str)] if called else []
    name = getattr(item, "originalname", item.name)
    return any(name in DEVIATIONS.get(kind, {}) for kind in given)


@pytest.fixture(scope="session")
def ssh_servers() -> Iterator[Callable[[str], SshServer]]:
    """SSH servers by the user that logs in, each started when it is first needed.

    `engine` is a root user of a host with a container engine.
    """
    with contextlib.ExitStack() as stack:
        made = {user: serving_ssh(user) for user in ("root", "nobody")}
        made["engine"] = serving_ssh("root", prepared=with_engine)
        yield functools.cache(lambda user: stack.enter_context(made[user]))


@pytest.fixture
def yard(copies: Path, ssh_servers: Callable[[str], SshServer]) -> Iterator[Yard]:
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
        machine_image=kernel_folder(),
    )
    made = Yard(folder=folder, station=station, workspace=workspace, servers=ssh_servers)
    yield made
    there = made.server.environments() if made.server else []
    left = sorted(path.name for path in station.runtime.glob("0*"))
    shutil.rmtree(folder)
    assert [*left, *there] == [], "an environment left its folder behind"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """How an environment ended is waited for, however long a busy machine takes to know it."""
    monkeypatch.setattr(ends, "LOOKS", 1200)
    monkeypatch.setattr(container_ends, "NOTICE_S", 60.0)


@pytest.fixture
def adapter(yard: Yard) -> Adapter:
    """The process kind; the contract's suite asks for each kind in turn."""
    return ProcessEnvironment(yard.station)


@pytest.fixture
async def start(adapter: Adapter) -> AsyncIterator[Start]:
    async with starting(adapter) as function:
        yield function
