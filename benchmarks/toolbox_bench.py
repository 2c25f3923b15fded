"""The sandbox: how long it takes to be there, and to answer."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.measuring import measured, median_ms_async
from benchmarks.yard import Yard, opened
from patchyard.contracts.environment import Toolbox
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Mount


def _spec(yard: Yard) -> EnvironmentSpec:
    yard.folder.chmod(0o777)
    place = Mount(source=str(yard.folder), target="/srv/bench", is_writable=True)
    return EnvironmentSpec(plan_id="bench", purpose="check", workspace=place)


@asynccontextmanager
async def _toolbox(yard: Yard) -> AsyncIterator[Toolbox]:
    process = yard.equipment.environment(ExecutionEnvironment.PROCESS)
    handle = await process.start(_spec(yard))
    try:
        toolbox = await process.attach(handle)
        yield toolbox
        await toolbox.close()
    finally:
        await process.end(handle)


async def _start_ms() -> float:
    async with opened() as yard:
        process = yard.equipment.environment(ExecutionEnvironment.PROCESS)
        handles = []

        async def start() -> None:
            handle = await process.start(_spec(yard))
            handles.append(handle)
            await (await process.attach(handle)).close()

        try:
            return await median_ms_async(start, repeats=10)
        finally:
            for handle in handles:
                await process.end(handle)


async def _call_ms(op: str, arguments: Mapping[str, Any], *, repeats: int) -> float:
    async with opened() as yard:
        yard.folder.joinpath("one.txt").write_text("x" * 1024)
        numbers = itertools.count()
        async with _toolbox(yard) as toolbox:

            async def call() -> None:
                call_id = f"bench-{next(numbers)}"
                result = await toolbox.call(call_id, op, arguments)
                if not result["success"]:
                    raise RuntimeError(str(result))
                await toolbox.forget((call_id,))

            return await median_ms_async(call, repeats=repeats)


@measured("start of process, toolbox answering", target=40)
def track_process_start() -> float:
    return asyncio.run(_start_ms())


@measured("round trip: read_file of 1 KB", target=0.3)
def track_read_file() -> float:
    return asyncio.run(_call_ms("read_file", {"path": "one.txt"}, repeats=300))


@measured("round trip: true", target=1.5)
def track_true() -> float:
    arguments = {"command": "true", "timeout_s": 30}
    return asyncio.run(_call_ms("execute_command", arguments, repeats=100))


@measured("round trip: true in a stateful shell", target=2)
def track_session() -> float:
    arguments = {"command": "true", "timeout_s": 30, "session": "bench"}
    return asyncio.run(_call_ms("execute_command", arguments, repeats=100))
