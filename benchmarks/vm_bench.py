"""Virtual machines: how long one takes to be there, and to answer."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.measuring import measured, median_ms_async
from benchmarks.yard import Yard, opened
from patchyard.contracts.environment import Toolbox
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Mount

SPAWNING = """
import os, statistics, time
def once():
    began = time.perf_counter()
    os.waitpid(os.posix_spawn("/bin/bash", ["bash", "-c", "true"], {}), 0)
    return (time.perf_counter() - began) * 1000
print(statistics.median(once() for _ in range(20)))
"""


def _spec(yard: Yard) -> EnvironmentSpec:
    place = Mount(source=str(yard.folder), target="/srv/bench", is_writable=True)
    return EnvironmentSpec(plan_id="bench", purpose="check", workspace=place)


@asynccontextmanager
async def _toolbox() -> AsyncIterator[Toolbox]:
    async with opened() as yard:
        yard.folder.joinpath("one.txt").write_text("x" * 1024)
        machine = yard.equipment.environment(ExecutionEnvironment.VM)
        handle = await machine.start(_spec(yard))
        try:
            toolbox = await machine.attach(handle)
            yield toolbox
            await toolbox.close()
        finally:
            await machine.end(handle)


async def _timed(toolbox: Toolbox, op: str, arguments: Mapping[str, Any]) -> float:
    numbers = itertools.count()

    async def call() -> None:
        result = await toolbox.call(f"{op}-{next(numbers)}", op, arguments)
        if not result["success"]:
            raise RuntimeError(str(result))

    return await median_ms_async(call, repeats=20)


async def _call_ms(op: str, arguments: Mapping[str, Any]) -> float:
    async with _toolbox() as toolbox:
        return await _timed(toolbox, op, arguments)


async def _start_ms() -> float:
    async with opened() as yard:
        machine = yard.equipment.environment(ExecutionEnvironment.VM)
        await machine.end(await machine.start(_spec(yard)))  # saves the state

        async def start() -> None:
            await machine.end(await machine.start(_spec(yard)))

        return await median_ms_async(start, repeats=5)


async def _true_ratio() -> float:
    """Of `true` to what it must cost: a shell started there, and a way there and back."""
    async with _toolbox() as toolbox:
        taken = await _timed(toolbox, "execute_command", {"command": "true"})
        trip = await _timed(toolbox, "read_file", {"path": "one.txt"})
        inside = {"command": f"python3 -c '{SPAWNING}'"}
        said = await toolbox.call("inside", "execute_command", inside)
    return taken / (trip + float(said["stdout"]))


@measured("start of a virtual machine from its saved state")
def track_start() -> float:
    return asyncio.run(_start_ms())


@measured("a 1 KB read in a virtual machine")
def track_read() -> float:
    return asyncio.run(_call_ms("read_file", {"path": "one.txt"}))


@measured("`true` in a virtual machine")
def track_true() -> float:
    return asyncio.run(_call_ms("execute_command", {"command": "true"}))


@measured("`true` there, of a fork and exec there and the round trip", target=1.5, unit="times")
def track_true_ratio() -> float:
    return asyncio.run(_true_ratio())
