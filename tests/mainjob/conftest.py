import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainjob.driver import Desk, git
from mainjob.watched_engines import WatchedEngine, watched_engine
from network_watch import watched_network
from services import need

NOBODY = 65534


def furnished(folder: Path, user: int | None = None) -> Desk:
    """A desk with a home, a place for canaries and a repository of one commit."""
    desk = Desk(folder=folder, repo=folder / "repo", user=user)
    for place in (desk.home, desk.canary, desk.repo):
        place.mkdir()
    desk.canary.chmod(0o777)
    git(desk.repo, "init", "-q", "-b", "main")
    (desk.repo / "a.txt").write_text("one\ntwo\n")
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "start")
    return desk


def _emptied(folder: Path, user: int | None = None) -> Iterator[Desk]:
    """Lend a desk below a folder that every user may pass, and clear it away."""
    folder.chmod(0o755)
    made = furnished(folder, user)
    if user is not None:
        for place in (folder, *folder.rglob("*")):
            os.lchown(place, user, user)
    yield made
    made.clear()
    # A store that is closed meanwhile takes its log away: only what stays is an error.
    subprocess.run(["chmod", "-Rf", "u+rwX", "--", str(folder)], check=False)
    subprocess.run(["rm", "-rf", "--", str(folder)], check=True)


@pytest.fixture
def desk() -> Iterator[Desk]:
    """The desk of whoever runs the tests."""
    yield from _emptied(Path(tempfile.mkdtemp(prefix="patchyard-desk-")))


@pytest.fixture
def plain_desk() -> Iterator[Desk]:
    """The desk of an ordinary user; root lends one to `nobody`."""
    need("ordinary-user")
    user = NOBODY if os.geteuid() == 0 else None
    yield from _emptied(Path(tempfile.mkdtemp(prefix="patchyard-desk-")), user)


@pytest.fixture(scope="session")
def watched_docker() -> Iterator[WatchedEngine]:
    """A container engine whose network is watched, for all tests that need one."""
    with watched_network() as network, watched_engine(network) as engine:
        yield engine


@pytest.fixture
def engine_in_use(
    watched_docker: WatchedEngine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WatchedEngine]:
    """That engine as the one of `agents`; afterwards it has no container."""
    monkeypatch.setenv("DOCKER_HOST", watched_docker.host)
    yield watched_docker
    assert watched_docker.left == []
