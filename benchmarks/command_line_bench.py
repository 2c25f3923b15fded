"""What a person waits for before anything happens."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measuring import measured, median_ms

AGENTS = Path(sys.executable).parent / "agents"


@measured("agents --help", target=150)
def track_agents_help() -> float:
    if not AGENTS.is_file():
        raise NotImplementedError("the package is not installed beside this Python")

    def ask() -> None:
        subprocess.run([AGENTS, "--help"], check=True, stdout=subprocess.DEVNULL)

    return median_ms(ask, repeats=10)


@measured("agents worker, until it takes plans", target=600)
def track_worker_start() -> float:
    if not AGENTS.is_file():
        raise NotImplementedError("the package is not installed beside this Python")

    with tempfile.TemporaryDirectory(prefix="patchyard-bench-") as folder:
        environ = {**os.environ, "PATCHYARD_HOME": folder, "HOME": folder}

        return statistics.median(_worker_ms(environ) for _ in range(8))


def _worker_ms(environ: Mapping[str, str]) -> float:
    """Start a worker, and end it once it said that it takes plans, which is not counted."""
    words = [str(AGENTS), "worker", "--name", "bench"]
    started = time.perf_counter()
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=environ, text=True) as worker:
        assert worker.stderr is not None
        said = worker.stderr.readline()
        taken = (time.perf_counter() - started) * 1000
        worker.terminate()
    if "at once" not in said:
        raise RuntimeError(f"the worker did not start: {said}")
    return taken
