"""What a gateway still waits for once the program inside that asked has left.

A host that hangs would hold the connection for minutes otherwise, and there are so many at once.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

LEFT_S = 30.0  # for a program that has said all it will, and may still listen
LOOK_S = 0.5


class Left(ConnectionError):
    """The program inside has left, and nothing more has come for it."""

    def __init__(self) -> None:
        super().__init__(f"the program inside had left, and nothing came for it in {LEFT_S:g} s")


@asynccontextmanager
async def while_wanted(
    reader: asyncio.StreamReader, passed: Callable[[], int]
) -> AsyncIterator[None]:
    """Do the block, and give it up once the other side of `reader` is done and nothing passes.

    `passed` counts what went either way, in bytes. Raises Left.
    """
    try:
        async with asyncio.timeout(None) as scope:
            watching = asyncio.create_task(_watch(reader, passed, scope))
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise Left from error


async def _watch(
    reader: asyncio.StreamReader, passed: Callable[[], int], scope: asyncio.Timeout
) -> None:
    is_done, seen = False, -1
    while not is_done:
        await asyncio.sleep(LEFT_S if reader.at_eof() else LOOK_S)
        now = passed()
        is_done = reader.at_eof() and seen == now
        seen = now if reader.at_eof() else -1
    scope.reschedule(asyncio.get_running_loop().time())


__all__ = ["LEFT_S", "LOOK_S", "Left", "while_wanted"]
