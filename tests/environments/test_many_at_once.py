"""Many environments at once on one machine: each is right, and none is left.

`PATCHYARD_AT_ONCE` sets how many of `process` (30 in CI, 100 in the soak); of containers a fifth.
"""

import asyncio
from collections.abc import Sequence

import pytest

from chaos.killing import amount
from environments.yards import Adapter, Running, Yard, living, marks_of
from patchyard.domain.environment import EnvironmentHandle

MANY = amount("PATCHYARD_AT_ONCE", sample=30, soak=100)
STARTING = 4  # at the same moment
COUNTS = {"process": MANY, "container": MANY // 5}

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300 + 10 * MANY)]


@pytest.mark.service("bubblewrap")
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=marks_of(kind)) for kind in COUNTS])
async def test_each_of_many_is_its_own_and_all_are_gone_afterwards(yard: Yard, kind: str) -> None:
    adapter = yard.adapter(kind)
    turns = asyncio.Semaphore(STARTING)

    async def start(_: int) -> EnvironmentHandle:
        async with turns:
            return await adapter.start(yard.spec())

    handles = await asyncio.gather(*map(start, range(COUNTS[kind])))
    try:
        said = await asyncio.gather(
            *(_answer(adapter, handle, number) for number, handle in enumerate(handles))
        )
        assert said == [f"{number} 1" for number in range(len(handles))]
        assert len({path.read_text() for path in yard.workspace.iterdir()}) == len(handles)
        assert len(living(yard)) >= len(handles)
    finally:
        await _end_all(adapter, handles, turns)
    assert living(yard) == []


async def _answer(adapter: Adapter, handle: EnvironmentHandle, number: int) -> str:
    """What one says of itself, with a shell of its own and a file in what all share."""
    toolbox = await adapter.attach(handle)
    try:
        command = (
            f"echo {number} > /tmp/own; echo {number} > made-{number}.txt;"
            " echo $(cat /tmp/own) $(ls /tmp | grep -c own)"
        )
        return await Running(adapter, handle, toolbox).run(command, timeout_s=60)
    finally:
        await toolbox.close()


async def _end_all(
    adapter: Adapter, handles: Sequence[EnvironmentHandle], turns: asyncio.Semaphore
) -> None:
    async def end(handle: EnvironmentHandle) -> None:
        async with turns:
            await adapter.end(handle)

    await asyncio.gather(*map(end, handles))
