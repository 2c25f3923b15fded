"""Signs of life: a toolbox that is at work on a long request still answers a short one."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

from patchyard.contracts.environment import Toolbox
from patchyard.domain.errors import EnvironmentBroken

T = TypeVar("T")

ASKING_S = 5.0  # from one sign to the next; below the slack that a silent toolbox has


async def with_signs(work: Awaitable[T], toolbox: Toolbox) -> T:
    """Await `work` of a toolbox, and ask it meanwhile whether it lives.

    Each answer is heard (see engine.answers), so that who waits for a call gives up a toolbox that
    is silent, and not one that looks at very many files in a slow machine. It bounds nothing by
    itself.
    """
    asking = asyncio.ensure_future(_asking(toolbox))
    try:
        return await work
    finally:
        asking.add_done_callback(_seen)
        asking.cancel()


def _seen(asking: "asyncio.Future[None]") -> None:
    """Take what it failed with: the work itself says what is wrong."""
    if not asking.cancelled():
        asking.exception()


async def _asking(toolbox: Toolbox) -> None:
    number = 0
    with suppress(EnvironmentBroken):  # the work that is waited for says it, too
        while True:
            await asyncio.sleep(ASKING_S)
            number += 1
            await toolbox.attach(f"sign-{number}")  # which it does not know, and says so


__all__ = ["ASKING_S", "with_signs"]
