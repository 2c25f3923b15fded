"""A machine where `process` cannot start: the cause and the cure are named, nothing else runs."""

import asyncio
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from environments.yards import Yard, living
from patchyard.clients import bubblewrap, seccomp
from patchyard.domain.errors import EnvironmentUnavailable, StartBroken
from patchyard.environments import process
from patchyard.environments.process import ProcessEnvironment
from patchyard.toolbox import finding
from toolboxes import comes_true

pytestmark = pytest.mark.anyio

Install = Callable[..., None]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    caches = (bubblewrap.find_bubblewrap, seccomp.filter_program)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a program in bubblewrap's place that answers its version and then does as told."""

    def put(script: str, version: str = "0.8.0") -> None:
        program = tmp_path / "bwrap"
        program.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "bubblewrap {version}" && exit\n{script}\n'
        )
        program.chmod(0o755)
        monkeypatch.setattr(bubblewrap, "KNOWN_PLACES", (str(program),))

    return put


async def test_bubblewrap_that_is_not_installed(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "KNOWN_PLACES", ())
    monkeypatch.setenv("PATH", "/nonexistent")
    readiness = await ProcessEnvironment(yard.station).check()
    assert not readiness.is_ready
    assert "not installed" in readiness.cause
    assert "apt install bubblewrap" in readiness.cure


async def test_bubblewrap_that_is_too_old(yard: Yard, install: Install) -> None:
    install("true", version="0.4.1")
    readiness = await ProcessEnvironment(yard.station).check()
    assert "too old" in readiness.cause
    assert "0.5" in readiness.cure


async def test_bubblewrap_that_may_not_start(yard: Yard, install: Install) -> None:
    install('echo "bwrap: setting up uid map: Permission denied" >&2; exit 1')
    readiness = await ProcessEnvironment(yard.station).check()
    assert not readiness.is_ready
    assert "setting up uid map: Permission denied" in readiness.cause
    assert readiness.cure


async def test_bubblewrap_that_hangs_is_ended_in_time(
    yard: Yard, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("sleep 300 & wait")
    monkeypatch.setattr(process, "START_TIMEOUT_S", 0.2)
    with pytest.raises(EnvironmentUnavailable, match=r"did not answer within 0\.2 s") as refused:
        await ProcessEnvironment(yard.station).start(yard.spec())
    assert "busy" in refused.value.hint
    assert living(yard) == []


async def test_a_start_that_hangs_once_is_made_again(
    yard: Yard, install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mark = tmp_path / "tried"
    install(f'[ -e {mark} ] && exec /usr/bin/bwrap "$@"; touch {mark}; sleep 300 & wait')
    monkeypatch.setattr(process, "START_TIMEOUT_S", 10.0)  # the script has begun by then
    environment = ProcessEnvironment(yard.station)
    starting = asyncio.create_task(environment.start(yard.spec()))
    await comes_true(mark.exists)
    monkeypatch.setattr(process, "START_TIMEOUT_S", 60.0)  # of the second one
    handle = await starting
    await environment.end(handle)
    assert mark.exists()
    assert living(yard) == []


async def test_a_machine_without_libseccomp(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> ctypes.CDLL:
        raise OSError("libseccomp.so.2: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(EnvironmentUnavailable, match="libseccomp") as refused:
        await ProcessEnvironment(yard.station).start(yard.spec())
    assert "libseccomp2" in refused.value.hint


def test_bubblewrap_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match="does not run"):
        bubblewrap.bubblewrap_of(*finding.program("bwrap", [install_silent(tmp_path)]))
    with pytest.raises(EnvironmentUnavailable, match="not installed"):
        bubblewrap.bubblewrap_of(*finding.program("no-such-program", []))


@pytest.mark.parametrize("ends", ["kill -KILL $$", "exit 1"])
async def test_bubblewrap_that_is_killed_as_it_says_its_version_is_started_once_more(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: str
) -> None:
    mark, program = tmp_path / "killed", tmp_path / "bwrap"
    program.write_text(
        f'#!/bin/sh\n[ -e {mark} ] && exec /usr/bin/bwrap "$@"\ntouch {mark}\n{ends}\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "KNOWN_PLACES", (str(program),))
    environment = ProcessEnvironment(yard.station)

    with pytest.raises(StartBroken, match="does not run") as broken:  # the engine tries it again
        await environment.start(yard.spec())
    assert broken.value.retryable
    assert broken.value.hint is not None
    assert "free some memory" in broken.value.hint
    assert "host" not in broken.value.hint

    await environment.end(await environment.start(yard.spec()))
    assert living(yard) == []


def install_silent(folder: Path) -> str:
    """A program that ends at once with an error."""
    path = folder / "bwrap"
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return str(path)
