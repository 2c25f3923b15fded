"""What each kind of environment costs beside the floor: the bare tools it stands on, in one run."""

import asyncio
import itertools
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.measuring import measured, median_ms, median_ms_async
from benchmarks.yard import Yard, opened
from patchyard.clients.docker import connected, engine_socket
from patchyard.clients.trial_image import trial_image, trial_mounts
from patchyard.contracts.environment import Toolbox, Trying
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Mount

TRUE = {"command": "true", "timeout_s": 30}
SESSION = {**TRUE, "session": "bench"}
MEGABYTE = {"command": "head -c 1000000 /dev/zero | tr '\\0' x", "timeout_s": 30}
READ = {"path": "one.txt"}


async def _spec(yard: Yard, kind: ExecutionEnvironment) -> EnvironmentSpec:
    yard.folder.chmod(0o777)
    target = str(yard.folder) if kind == ExecutionEnvironment.HOST else "/srv/bench"
    place = Mount(source=str(yard.folder), target=target, is_writable=True)
    adapter = yard.equipment.environment(kind)
    if isinstance(adapter, Trying):
        return await adapter.trial(place)
    return EnvironmentSpec(plan_id="bench", purpose="check", workspace=place)


@asynccontextmanager
async def _toolbox(yard: Yard, kind: ExecutionEnvironment) -> AsyncIterator[Toolbox]:
    adapter = yard.equipment.environment(kind)
    handle = await adapter.start(await _spec(yard, kind))
    try:
        toolbox = await adapter.attach(handle)
        yield toolbox
        await toolbox.close()
    finally:
        await adapter.end(handle)


async def _start_ms(kind: ExecutionEnvironment) -> float:
    async with opened() as yard:
        adapter, spec = yard.equipment.environment(kind), await _spec(yard, kind)
        handles = []

        async def start() -> None:
            handle = await adapter.start(spec)
            handles.append(handle)
            await (await adapter.attach(handle)).close()

        try:
            return await median_ms_async(start, repeats=7)
        finally:
            for handle in handles:
                await adapter.end(handle)


async def _call_ms(
    kind: ExecutionEnvironment, op: str, arguments: Mapping[str, Any], *, repeats: int = 100
) -> float:
    async with opened() as yard:
        yard.folder.joinpath("one.txt").write_text("x" * 1024)
        numbers = itertools.count()
        async with _toolbox(yard, kind) as toolbox:

            async def call() -> None:
                call_id = f"bench-{next(numbers)}"
                result = await toolbox.call(call_id, op, arguments)
                if not result["success"]:
                    raise RuntimeError(str(result))
                await toolbox.forget((call_id,))

            return await median_ms_async(call, repeats=repeats)


def _command(kind: ExecutionEnvironment, arguments: Mapping[str, Any], repeats: int = 100) -> float:
    return asyncio.run(_call_ms(kind, "execute_command", arguments, repeats=repeats))


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
        name, archive = trial_image()
        async with connected(engine_socket(os.environ)) as engine:
            await engine.load(name, archive)
        return name

    image = asyncio.run(loaded())
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


@measured("host: start")
def track_host_start() -> float:
    return asyncio.run(_start_ms(ExecutionEnvironment.HOST))


@measured("host: true", target=2)
def track_host_true() -> float:
    return _command(ExecutionEnvironment.HOST, TRUE)


@measured("process: 1 MB of output", target=15)
def track_process_output() -> float:
    return _command(ExecutionEnvironment.PROCESS, MEGABYTE, repeats=20)


@measured("container: start")
def track_container_start() -> float:
    return asyncio.run(_start_ms(ExecutionEnvironment.CONTAINER))


@measured("container: read_file of 1 KB", target=0.5)
def track_container_read() -> float:
    return asyncio.run(_call_ms(ExecutionEnvironment.CONTAINER, "read_file", READ, repeats=300))


@measured("container: true", target=2)
def track_container_true() -> float:
    return _command(ExecutionEnvironment.CONTAINER, TRUE)


@measured("container: true in a stateful shell", target=3)
def track_container_session() -> float:
    return _command(ExecutionEnvironment.CONTAINER, SESSION)


@measured("container: 1 MB of output", target=15)
def track_container_output() -> float:
    return _command(ExecutionEnvironment.CONTAINER, MEGABYTE, repeats=20)
