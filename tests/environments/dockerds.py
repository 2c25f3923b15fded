"""A container engine of a test's own, to be killed and started again."""

import contextlib
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import images
from images import WITHOUT_PYTHON, image
from patchyard.clients.mounts import unmount
from patchyard.clients.process import identify, kill, wait_ended
from services import REAL_ENVIRONMENT

__all__ = ["OwnEngine", "engine", "own_engine"]

START = Path(__file__).parents[2] / "scripts" / "start_dockerd.sh"
ENDING_S = 120.0
NUMBERS = ("pid", "exec/containerd/containerd.pid")


@dataclass(kw_only=True)
class OwnEngine:
    """One dockerd with its containerd, in a folder."""

    folder: Path

    @property
    def host(self) -> str:
        """What DOCKER_HOST says."""
        return f"unix://{self.folder}/docker.sock"

    def start(self) -> None:
        """Start it, or start it again."""
        for name in NUMBERS:  # what a killed one left; its number may live on
            (self.folder / name).unlink(missing_ok=True)
        words = [str(START), str(self.folder)]
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, env=REAL_ENVIRONMENT
        )
        assert done.returncode == 0, done.stderr

    def kill(self) -> None:
        """Kill the daemon; its containers live on. What serves it dies with it."""
        self._end("pid", signal.SIGKILL)

    def stop(self) -> None:
        """End it with all its containers."""
        for name in NUMBERS:
            self._end(name, signal.SIGTERM)

    def _end(self, name: str, number: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            found = identify(int((self.folder / name).read_text()))
            if found is not None:
                kill(found, number)
                assert wait_ended(found, timeout_s=ENDING_S)

    def containers(self) -> list[str]:
        """The names of all its containers, running or not."""
        return self.run("ps", "--all", "--format", "{{.Names}}").split()

    def run(self, *words: str) -> str:
        """Run a command of docker's."""
        environ = REAL_ENVIRONMENT | {"DOCKER_HOST": self.host}
        done = subprocess.run(
            ["docker", *words], check=True, capture_output=True, text=True, env=environ
        )
        return done.stdout


@contextlib.contextmanager
def own_engine() -> Iterator[OwnEngine]:
    """An engine with the image of `WITHOUT_PYTHON`, in which the block's images are made."""
    made = OwnEngine(folder=Path(tempfile.mkdtemp(prefix="patchyard-dockerd-", dir="/tmp")))
    made.start()
    try:
        with pytest.MonkeyPatch.context() as patched:
            environ = REAL_ENVIRONMENT | {"DOCKER_HOST": made.host}
            patched.setattr(images, "REAL_ENVIRONMENT", environ)
            image.cache_clear()
            image(WITHOUT_PYTHON)
        yield made
    finally:
        image.cache_clear()
        made.stop()
        for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
            place = Path(line.split(" ")[4])
            if made.folder in place.parents:
                unmount(place)
        shutil.rmtree(made.folder)


@pytest.fixture(scope="module")
def engine() -> Iterator[OwnEngine]:
    """One for the tests of a module."""
    with own_engine() as made:
        yield made
