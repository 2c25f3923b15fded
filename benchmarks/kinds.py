"""One environment of each kind, and what it takes to be there and to answer."""

import asyncio
import functools
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measuring import median_ms_async
from benchmarks.yard import Yard, opened
from patchyard.contracts.environment import Environment, Toolbox, Trying
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Mount
from patchyard.domain.errors import EnvironmentUnavailable

__all__ = ["START_REPEATS", "YONDER", "Bench", "figures", "served"]

START_REPEATS = 7
RATIOS = 5  # the median of so many: machines are shared
IN_PLACE = (ExecutionEnvironment.HOST, ExecutionEnvironment.SSH)
TRUE = {"command": "true", "timeout_s": 30}
CALLS: Mapping[str, tuple[str, Mapping[str, Any], int]] = {
    "read": ("read_file", {"path": "one.txt"}, 200),
    "true": ("execute_command", TRUE, 100),
    "session": ("execute_command", {**TRUE, "session": "bench"}, 100),
    "output": (
        "execute_command",
        {"command": "head -c 1000000 /dev/zero | tr '\\0' x", "timeout_s": 30},
        20,
    ),
}
"""What is called, and how often."""

SPAWNING = """
import os, statistics, time
shell = next(each for each in ("/bin/bash", "/bin/sh") if os.access(each, os.X_OK))
def once():
    began = time.perf_counter()
    os.waitpid(os.posix_spawn(shell, [shell, "-c", "true"], os.environ), 0)
    return (time.perf_counter() - began) * 1000
print(statistics.median(once() for _ in range(50)))
"""
"""The very shell that runs a command line there, by a program there."""


@contextmanager
def served() -> Iterator[Any]:
    """An SSH server on the loopback, as the tests have it; NotImplementedError without one."""
    tests = str(Path(__file__).resolve().parents[1] / "tests")
    if tests not in sys.path:
        sys.path.append(tests)
    from sshds import serving_ssh  # noqa: PLC0415 - tests are no package

    if os.geteuid() != 0:
        raise NotImplementedError("an SSH server for made-up users needs root")
    with serving_ssh() as server:
        yield server


class Bench:
    """One kind in a yard of its own."""

    def __init__(self, yard: Yard, kind: ExecutionEnvironment) -> None:
        self.yard = yard
        self.adapter: Environment = yard.equipment.environment(kind)
        self.kind = kind
        self.address = ""
        self._numbers = itertools.count()

    @asynccontextmanager
    async def spec(self) -> AsyncIterator[EnvironmentSpec]:
        """What one is started with."""
        self.yard.folder.chmod(0o777)
        target = str(self.yard.folder) if self.kind in IN_PLACE else "/srv/bench"
        place = Mount(source=str(self.yard.folder), target=target, is_writable=True)
        if isinstance(self.adapter, Trying):
            async with self.adapter.trial(place) as spec:
                yield spec
        else:
            yield EnvironmentSpec(
                plan_id="bench", purpose="check", workspace=place, address=self.address
            )

    @asynccontextmanager
    async def toolbox(self) -> AsyncIterator[Toolbox]:
        """A started one."""
        async with self.spec() as spec:
            handle = await self.adapter.start(spec)
            try:
                toolbox = await self.adapter.attach(handle)
                yield toolbox
                await toolbox.close()
            finally:
                await self.adapter.end(handle)

    async def start_ms(self) -> float:
        """From nothing to a toolbox that answers."""
        async with self.spec() as spec:
            handles = []

            async def start() -> None:
                handle = await self.adapter.start(spec)
                handles.append(handle)
                await (await self.adapter.attach(handle)).close()

            try:
                return await median_ms_async(start, repeats=START_REPEATS)
            finally:
                for handle in handles:
                    await self.adapter.end(handle)

    async def _called(self, toolbox: Toolbox, op: str, arguments: Mapping[str, Any]) -> Any:
        call_id = f"bench-{next(self._numbers)}"
        result = await toolbox.call(call_id, op, arguments)
        if not result["success"]:
            raise RuntimeError(str(result))
        await toolbox.forget((call_id,))
        return result

    async def call_ms(self, toolbox: Toolbox, name: str) -> float:
        """One of CALLS, there and back."""
        op, arguments, repeats = CALLS[name]
        is_slow = self.kind == ExecutionEnvironment.VM
        return await median_ms_async(
            lambda: self._called(toolbox, op, arguments), repeats=20 if is_slow else repeats
        )

    async def file_ms(self, toolbox: Toolbox) -> float:
        """10 MB that lie here, copied there, and the copy here again."""
        taken = []
        for number in range(4):
            content = os.urandom(10_000_000)
            here = self.yard.folder / f"in-{number}"
            here.write_bytes(content)
            here.chmod(0o644)
            began = time.perf_counter()
            copying = {"command": f"cp in-{number} out-{number}", "timeout_s": 60}
            await self._called(toolbox, "execute_command", copying)
            is_same = (self.yard.folder / f"out-{number}").read_bytes() == content
            taken.append((time.perf_counter() - began) * 1000)
            if not is_same:
                raise RuntimeError("the copy is another file")
        return median(taken[1:])

    async def spawn_ms(self, toolbox: Toolbox) -> float:
        """A shell that is started there by a program there."""
        asked = {"command": f"python3 -c '{SPAWNING}'", "timeout_s": 60}
        return float((await self._called(toolbox, "execute_command", asked))["stdout"])


YONDER = "yonder"  # as the configuration that `served` writes names its server


async def _ratio(bench: Bench, toolbox: Toolbox) -> float:
    """`true`, to a shell that is started there plus the way there and back, at one time."""
    begun = await bench.spawn_ms(toolbox)
    taken = await bench.call_ms(toolbox, "true")
    way = await bench.call_ms(toolbox, "read")
    return taken / (way + (begun + await bench.spawn_ms(toolbox)) / 2)


async def _measured(bench: Bench) -> Mapping[str, float]:
    found = {"start": await bench.start_ms()}
    (bench.yard.folder / "one.txt").write_text("x" * 1024)
    async with bench.toolbox() as toolbox:
        for name in CALLS:
            found[name] = await bench.call_ms(toolbox, name)
        found["ratio"] = median([await _ratio(bench, toolbox) for _ in range(RATIOS)])
        found["file"] = await bench.file_ms(toolbox)
    return found


async def _figures(kind: ExecutionEnvironment) -> Mapping[str, float]:
    try:
        async with opened(is_nobody=kind == ExecutionEnvironment.SSH) as yard:
            bench = Bench(yard, kind)
            if kind != ExecutionEnvironment.SSH:
                return await _measured(bench)
            with served() as server:
                server.configure(yard.person)
                bench.address = YONDER
                return await _measured(bench)
    except EnvironmentUnavailable as error:
        raise NotImplementedError(error.message) from error


@functools.cache
def figures(kind: ExecutionEnvironment) -> Mapping[str, float]:
    """All figures of one kind, taken once: start, each of CALLS, `ratio`, `file`."""
    return asyncio.run(_figures(kind))
