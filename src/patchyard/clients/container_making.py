"""Containers whose engine makes them although whoever asked is gone: cancelled, or killed.

A container engine goes on with a request whose connection was closed.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchyard.clients.berths import NOTE
from patchyard.clients.docker import ContainerEngine
from patchyard.domain.errors import EnvironmentUnavailable

CREATING_S = 5.0  # that a container engine takes at most
LOOK_S = 0.1


async def made(engine: ContainerEngine, name: str, config: Mapping[str, Any]) -> None:
    """Have a container made; who is cancelled waits for it, and can take it away then.

    Raises EnvironmentUnavailable.
    """
    creating = asyncio.ensure_future(engine.create(name, config))
    try:
        await asyncio.shield(creating)
    except asyncio.CancelledError:
        with contextlib.suppress(EnvironmentUnavailable, TimeoutError):
            async with asyncio.timeout(CREATING_S):
                await creating
        raise


async def made_late(engine: ContainerEngine, name: str, berth: Path) -> None:
    """Wait for a container that may still be made for an engine of ours that was killed.

    Until CREATING_S after its folder was last noted in. Raises EnvironmentUnavailable.
    """
    with contextlib.suppress(FileNotFoundError):
        age_s = max(0.0, time.time() - (berth / NOTE).stat().st_mtime)
        ends = time.monotonic() + CREATING_S - age_s
        while time.monotonic() < ends and await engine.inspect(name) is None:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(LOOK_S)


__all__ = ["CREATING_S", "LOOK_S", "made", "made_late"]
