"""The suite cannot reach the world by accident: no socket beyond loopback, a clean environment.

A test that needs a service is marked `service(name)`; see `services.py`. The index services
bring the user's own pip and npm settings back, for nothing else says where an index is.
"""

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fence import fence
from leftovers import left_outside
from services import REAL_ENVIRONMENT, need
from surroundings import cleaned, home

pytest_plugins = ["ordinary", "pytester"]

# A machine at work elsewhere is no property's fault: what takes too long has the test's time-out.
settings.register_profile(
    "patchyard", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patchyard")

USERS = Path("/etc/passwd")
INDEX_SERVICES = frozenset({"npm-index", "pypi-index"})
#: Services of tests without the fence: they need the world, or have a watched network of their own.
UNFENCED = INDEX_SERVICES | {"network-namespaces"}
CONTAINERS = {"docker", "runsc", "runsc-current", "runsc-systrap"}
INDEX_PREFIXES = (
    *("PIP_", "NPM_CONFIG_", "NODE_EXTRA_", "SSL_CERT_", "REQUESTS_CA_"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)


def _services(item: pytest.Item) -> list[str]:
    return [mark.args[0] for mark in item.iter_markers("service")]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in _services(item):
        need(name)


@pytest.fixture(autouse=True)
def _no_world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if UNFENCED.intersection(_services(request.node)):
        return

    fence(monkeypatch)


@pytest.fixture(autouse=True)
def _own_users() -> Iterator[None]:
    """Fail a test during which this machine's users changed: as root it could have done that."""
    before = USERS.read_bytes()
    yield
    assert USERS.read_bytes() == before, f"{USERS} has changed; {USERS}- may be an older copy"


def _indexes() -> dict[str, str]:
    """The user's settings of pip and npm, which the clean home would hide."""
    found = {n: v for n, v in REAL_ENVIRONMENT.items() if n.upper().startswith(INDEX_PREFIXES)}
    users = Path(REAL_ENVIRONMENT.get("HOME", "/nonexistent"))
    for name, place in (
        ("PIP_CONFIG_FILE", ".config/pip/pip.conf"),
        ("PIP_CONFIG_FILE", ".pip/pip.conf"),
        ("NPM_CONFIG_USERCONFIG", ".npmrc"),
    ):
        if (users / place).is_file():
            found.setdefault(name, str(users / place))
    return found


@pytest.fixture(scope="session", autouse=True)
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """A new empty home for the asking; fixtures of wider scope see a clean environment too."""
    before = dict(os.environ)
    folder = tmp_path_factory.mktemp("homes")
    homes = (folder / str(number) for number in itertools.count())
    os.environ.clear()
    os.environ.update({**cleaned(REAL_ENVIRONMENT), **home(next(homes))})
    yield homes
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session", autouse=True)
def _no_leftovers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Unmount what tests left below the suite's own folder; fail when it is anywhere else."""
    yield
    outside = left_outside(tmp_path_factory.getbasetemp())
    assert outside == [], "a test left workspaces mounted outside its own folder"


@pytest.fixture(autouse=True)
def _clean_environment(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    _homes: Iterator[Path],
) -> None:
    """Each test has a home of its own, empty."""
    variables = home(next(_homes))
    if INDEX_SERVICES.intersection(_services(request.node)):
        variables |= _indexes()
    if CONTAINERS.intersection(_services(request.node)) and "DOCKER_HOST" in REAL_ENVIRONMENT:
        variables["DOCKER_HOST"] = REAL_ENVIRONMENT["DOCKER_HOST"]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For tests on a clock that is moved: to them others' temporary folders would look old."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
