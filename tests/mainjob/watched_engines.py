"""A container engine in a watched network, where the image that hostile files start from is."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from images import WITHOUT_PYTHON, built_on, image
from mainjob.hostile_devcontainers import IMAGE
from network_watch import NetworkWatch
from service_setup import end
from services import REAL_ENVIRONMENT
from tree import ROOT

__all__ = ["ACCOUNTS", "WatchedEngine", "watched_engine"]

#: Without these no feature is installed.
ACCOUNTS = "echo root:x:0:0::/root:/bin/sh > /etc/passwd && echo root:x:0: > /etc/group"
WORKING = frozenset({"create", "start", "pull", "load", "import", "tag", "exec_create"})


@dataclass(frozen=True, kw_only=True)
class WatchedEngine:
    """One container engine, which keeps a list of what it did."""

    host: str  # as DOCKER_HOST names it
    network: NetworkWatch

    def said(self, *words: str, is_checked: bool = True) -> str:
        """Return what `docker` printed, standard error included."""
        done = subprocess.run(
            ["docker", *words],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env={"PATH": os.environ["PATH"], "DOCKER_HOST": self.host},
        )
        assert done.returncode == 0 or not is_checked, done.stdout
        return done.stdout

    def worked(self, since: float) -> list[str]:
        """Return what it made, started or pulled since then."""
        told = "{{.Type}} {{.Action}}"
        times = ("--since", f"{since:.6f}", "--until", f"{time.time():.6f}")
        lines = self.said("events", *times, "--format", told).splitlines()
        return [line for line in lines if line.split()[1].rstrip(":") in WORKING]

    @property
    def left(self) -> list[str]:
        """The containers there are, running or not."""
        return self.said("ps", "--all", "--quiet").split()


@contextmanager
def watched_engine(network: NetworkWatch) -> Iterator[WatchedEngine]:
    """Start one in that network, give it the image, and end it."""
    folder = Path(tempfile.mkdtemp(prefix="watched-engine-"))
    try:
        started = subprocess.run(
            [*network.entering, ROOT / "scripts/start_dockerd.sh", str(folder)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env=REAL_ENVIRONMENT,
        )
        engine = WatchedEngine(host=started.stdout.strip(), network=network)
        kept = folder / "image.tar"
        name = built_on(image(WITHOUT_PYTHON), f"RUN {ACCOUNTS}")
        words = ["docker", "save", "--output", str(kept), name]
        subprocess.run(words, check=True, env=REAL_ENVIRONMENT)
        engine.said("load", "--quiet", "--input", str(kept))
        engine.said("tag", name, IMAGE)
        kept.unlink()
        yield engine
    finally:
        end(folder)
        shutil.rmtree(folder, ignore_errors=True)
