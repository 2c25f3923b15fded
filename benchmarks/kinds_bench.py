"""What each kind of environment costs beside the floor: the bare tools it stands on, in one run."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.kinds import YONDER, figures, served
from benchmarks.measuring import measured, median_ms
from patchyard.clients.docker import connected, engine_socket
from patchyard.clients.trial_image import trial_image, trial_mounts
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import EnvironmentUnavailable

NAMES: Mapping[str, str] = {
    "start": "start, cold",
    "read": "a 1 KB read",
    "true": "true",
    "session": "true in a stateful shell",
    "output": "1 MB of output",
    "file": "10 MB in, copied there, and out",
    "ratio": "true, of its shell started there and a read",
}
OF_ALL: Mapping[str, float] = {"read": 0.5, "true": 2, "session": 3, "output": 15}
TARGETS: Mapping[ExecutionEnvironment, Mapping[str, float]] = {
    ExecutionEnvironment.HOST: OF_ALL,
    ExecutionEnvironment.PROCESS: {**OF_ALL, "start": 40, "read": 0.3, "true": 1.5, "session": 2},
    ExecutionEnvironment.CONTAINER: OF_ALL,
    ExecutionEnvironment.SSH: {"ratio": 1.5},
    ExecutionEnvironment.VM: {"ratio": 1.5},
}


def _bare(*words: str, repeats: int = 20) -> float:
    """A program by itself; NotImplementedError where it does not work here."""

    def run() -> None:
        done = subprocess.run(words, check=False, capture_output=True, env=dict(os.environ))
        if done.returncode:
            raise NotImplementedError(done.stderr.decode("utf-8", "replace").strip()[-200:])

    return median_ms(run, repeats=repeats)


def _docker(*words: str) -> float:
    """`docker` over the image that the other measures use, this machine's programs in it."""

    async def loaded() -> str:
        name, archive = trial_image("bench")
        async with connected(engine_socket(os.environ)) as engine:
            await engine.load(name, archive)
        return name

    try:
        image = asyncio.run(loaded())
    except EnvironmentUnavailable as error:
        raise NotImplementedError(error.message) from error
    shown = [word for m in trial_mounts() for word in ("-v", f"{m.source}:{m.target}:ro")]
    base = ("--rm", "--network=none", "--read-only", "--cap-drop=ALL", *shown)
    if words == ("run",):
        return _bare("docker", "run", *base, image, "true", repeats=7)
    box = f"patchyard-bench-{os.getpid()}"
    subprocess.run(
        ["docker", "run", "-d", "--name", box, *base, image, "sleep", "600"],
        check=True,
        capture_output=True,
    )
    try:
        return _bare("docker", "exec", box, "true")
    finally:
        subprocess.run(["docker", "kill", box], check=True, capture_output=True)


@measured("floor: a program spawned")
def track_floor_spawn() -> float:
    return _bare("true", repeats=100)


@measured("floor: bwrap true, all namespaces")
def track_floor_bwrap() -> float:
    return _bare("bwrap", "--ro-bind", "/", "/", "--unshare-all", "true", repeats=50)


@measured("floor: docker run true")
def track_floor_docker_run() -> float:
    return _docker("run")


@measured("floor: docker exec true")
def track_floor_docker_exec() -> float:
    return _docker("exec")


@measured("floor: ssh host true")
def track_floor_ssh() -> float:
    with served() as server, tempfile.TemporaryDirectory() as home:
        server.configure(Path(home))
        ssh = Path(home, ".ssh")
        known = f"UserKnownHostsFile={ssh}/known_hosts"
        return _bare("ssh", "-F", f"{ssh}/config", "-o", known, YONDER, "true")


@measured("container: start, over docker run", target=50)
def track_container_start_over_docker_run() -> float:
    return figures(ExecutionEnvironment.CONTAINER)["start"] - _docker("run")


def _figure(kind: ExecutionEnvironment, name: str) -> Callable[[], float]:
    target, unit = TARGETS[kind].get(name), "times" if name == "ratio" else "ms"

    @measured(f"{kind}: {NAMES[name]}", target=target, unit=unit)
    def track() -> float:
        return figures(kind)[name]

    return track


for _kind in TARGETS:
    for _name in NAMES:
        if _name == "ratio" and _name not in TARGETS[_kind]:
            continue  # it is about the way to a place elsewhere
        globals()[f"track_{_kind}_{_name}"] = _figure(_kind, _name)
