"""The suite cannot reach the world by accident: no socket beyond loopback, a clean environment.

A test that needs a service is marked `service(name)`; see `services.py`. The index services
bring the user's own pip and npm settings back, for nothing else says where an index is.
"""

import ipaddress
import itertools
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from services import REAL_ENVIRONMENT, absence, is_required

pytest_plugins = ["pytester"]

KEPT = frozenset({"CI", "LANG", "LC_ALL", "PATH", "PATCHYARD_SOAK", "TERM", "TMPDIR", "USER"})
KEPT_PREFIXES = ("COV_", "COVERAGE_", "PYTEST_")
INDEX_SERVICES = frozenset({"npm-index", "pypi-index"})
INDEX_PREFIXES = (
    *("PIP_", "NPM_CONFIG_", "NODE_EXTRA_", "SSL_CERT_", "REQUESTS_CA_"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
NAMES = {"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"}


class WorldReachedError(RuntimeError):
    """A test reached beyond loopback; mark it with the service that it needs."""


def _services(item: pytest.Item) -> list[str]:
    return [mark.args[0] for mark in item.iter_markers("service")]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in _services(item):
        why = absence(name)
        if why is not None and is_required(name):
            pytest.fail(f"REQUIRE_SERVICES names {name}, but {why}", pytrace=False)
        if why is not None:
            pytest.skip(f"needs {name}: {why}")


def _is_near(family: int, address: object) -> bool:
    if family not in {socket.AF_INET, socket.AF_INET6} or not isinstance(address, tuple):
        return True
    host = str(address[0])
    if host in {"", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def _no_world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if INDEX_SERVICES.intersection(_services(request.node)):
        return

    def guarded(method: str) -> Callable[..., Any]:
        real = getattr(socket.socket, method)

        def reach(self: socket.socket, *arguments: Any) -> Any:
            if not _is_near(self.family, arguments[-1]):
                raise WorldReachedError(f"{method} to {arguments[-1]}")
            return real(self, *arguments)

        return reach

    for method in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, method, guarded(method))


def _clean() -> dict[str, str]:
    return {
        name: value
        for name, value in REAL_ENVIRONMENT.items()
        if name in KEPT or name.startswith(KEPT_PREFIXES)
    }


def _indexes() -> dict[str, str]:
    """The user's settings of pip and npm, which the clean home would hide."""
    found = {n: v for n, v in REAL_ENVIRONMENT.items() if n.upper().startswith(INDEX_PREFIXES)}
    home = Path(REAL_ENVIRONMENT.get("HOME", "/nonexistent"))
    for name, place in (
        ("PIP_CONFIG_FILE", ".config/pip/pip.conf"),
        ("PIP_CONFIG_FILE", ".pip/pip.conf"),
        ("NPM_CONFIG_USERCONFIG", ".npmrc"),
    ):
        if (home / place).is_file():
            found.setdefault(name, str(home / place))
    return found


def _home(folder: Path) -> dict[str, str]:
    """The variables of a user who has nothing yet; git commits need a name."""
    folder.mkdir()
    person = {"NAME": "A Tester", "EMAIL": "tester@example.invalid"}
    return {
        "HOME": str(folder),
        "PATCHYARD_HOME": str(folder / ".local/share/patchyard"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        **{name: str(folder / name.lower()) for name in NAMES},
        **{f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in person.items()},
    }


@pytest.fixture(scope="session", autouse=True)
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """A new empty home for the asking; fixtures of wider scope see a clean environment too."""
    before = dict(os.environ)
    folder = tmp_path_factory.mktemp("homes")
    homes = (folder / str(number) for number in itertools.count())
    os.environ.clear()
    os.environ.update({**_clean(), **_home(next(homes))})
    yield homes
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(autouse=True)
def _clean_environment(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    _homes: Iterator[Path],
) -> None:
    """Each test has a home of its own, empty."""
    variables = _home(next(_homes))
    if INDEX_SERVICES.intersection(_services(request.node)):
        variables |= _indexes()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
