"""Podman speaks Docker's API with words of its own; the container is the same."""

import contextlib
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import images
from environments.yards import Yard, starting
from images import BUSYBOX, WITHOUT_PYTHON, bare_image, image
from patchyard.clients.build_bounds import Terms
from patchyard.clients.docker import connected
from patchyard.clients.mounts import unmount
from patchyard.clients.process import all_processes, identify, kill, wait_ended
from patchyard.domain.devcontainer import Build
from patchyard.domain.environment import ExecutionEnvironment, Limits
from patchyard.domain.errors import EnvironmentUnavailable, UsageError
from patchyard.environments.container import ContainerEnvironment
from patchyard.environments.ssh import SSHEnvironment
from services import REAL_ENVIRONMENT
from sshds import serving_ssh

pytestmark = [pytest.mark.anyio, pytest.mark.service("podman"), pytest.mark.service("docker")]
START = Path(__file__).parents[2] / "scripts" / "start_podman.sh"
LOOKS = 3  # in a row that find no process


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The socket of a Podman of this test's own."""
    folder = Path(tempfile.mkdtemp(prefix="patchyard-podman-", dir="/tmp"))
    words = [str(START), str(folder)]
    started = subprocess.run(
        words, check=True, capture_output=True, text=True, env=REAL_ENVIRONMENT
    )
    where = started.stdout.strip()
    monkeypatch.setenv("DOCKER_HOST", where)
    monkeypatch.setattr(images, "REAL_ENVIRONMENT", REAL_ENVIRONMENT | {"DOCKER_HOST": where})
    image.cache_clear()
    yield where
    image.cache_clear()
    service = identify(int((folder / "pid").read_text()))
    assert service is not None
    kill(service)
    wait_ended(service, timeout_s=60)
    _wait_for_those_that_name(folder)
    unmount(folder / "graph" / "overlay")  # which Podman mounts over itself
    shutil.rmtree(folder)


def _wait_for_those_that_name(folder: Path) -> None:
    """What sees to the end of a container comes after it, and writes there."""
    ends, quiet = time.monotonic() + 120, 0
    while quiet < LOOKS and time.monotonic() < ends:  # one that is being started names nothing
        quiet = 0 if any(str(folder).encode() in words for words in _command_lines()) else quiet + 1
        time.sleep(0.02)


def _command_lines() -> Iterator[bytes]:
    for each in all_processes():
        with contextlib.suppress(OSError):
            yield Path(f"/proc/{each.pid}/cmdline").read_bytes()


async def test_podman_makes_the_container_that_docker_makes(engine: str, yard: Yard) -> None:
    adapter = ContainerEnvironment(yard.station)
    yard.image = image(WITHOUT_PYTHON)
    async with starting(adapter) as start:
        running = await start(yard.spec(target="/srv/shop"))
        assert running.handle.details["engine"] == engine.removeprefix("unix://")
        await running.toolbox.call("w", "write_file", {"path": "a.txt", "content": "one\n"})
        assert await running.run("whoami; cat /srv/shop/a.txt; cd && touch x") == "agent\none"
        status = await running.run("cat /proc/1/status")
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        walls = [facts[name] for name in ("CapBnd", "NoNewPrivs", "Seccomp_filters")]
        assert walls == ["0" * 16, "1", "2"]
        assert "Read-only file system" in await running.run("echo x > /usr/new")
        assert "unreachable" in await running.run("(echo > /dev/tcp/192.0.2.1/80) 2>&1")
    assert (yard.workspace / "a.txt").stat().st_uid == yard.workspace.stat().st_uid
    assert (await adapter.check()).is_ready
    yard.image = bare_image({**BUSYBOX, "x": "run/patchyard"})
    with pytest.raises(UsageError, match="links of the image"):
        await adapter.start(yard.spec(target="/x"))


async def test_podman_whose_builds_nothing_bounds_builds_what_is_trusted_alone(
    engine: str, tmp_path: Path
) -> None:
    archive, text = tmp_path / "context.tar", f"FROM {image(WITHOUT_PYTHON)}\nRUN echo x > /x\n"
    (tmp_path / "Dockerfile").write_text(text)
    with tarfile.open(archive, "w") as written:
        written.add(tmp_path / "Dockerfile", arcname="Dockerfile")
    build = Build(dockerfile="Dockerfile")
    async with connected(engine.removeprefix("unix://")) as podman:
        terms = Terms(label="l", limits=Limits())
        with pytest.raises(EnvironmentUnavailable, match="not trusted"):
            await podman.build("x:1", build, archive, terms)
        assert not await podman.has_image("x:1")
        await podman.build("x:1", build, archive, replace(terms, is_trusted=True))
        assert await podman.has_image("x:1")


@pytest.mark.service("sshd")
async def test_podman_on_a_host_makes_it_too(engine: str, yard: Yard) -> None:
    link = f"ln -s {engine.removeprefix('unix://')} /run/docker.sock"
    with serving_ssh(prepared=lambda _: f"{link}\n") as server:
        yard.use(server)
        yard.carries, yard.image = ExecutionEnvironment.CONTAINER, image(WITHOUT_PYTHON)
        async with starting(SSHEnvironment(yard.station)) as start:
            running = await start(yard.spec(is_writable=False))
            (yard.workspace / "a.txt").write_text("one\n")
            assert await running.run("whoami; cat a.txt") == "agent\none"
            assert "Read-only file system" in await running.run("echo x > a.txt")
        assert server.environments() == []
