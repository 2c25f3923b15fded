"""Containers that an engine makes although the one that asked is gone: cancelled, killed, or tired.

A container engine goes on with a request whose connection was closed. Who gives one up that was not
answered leaves a mark in the environment's folder, which stays until nothing can come of it.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchyard.clients.berths import NOTE, Berth
from patchyard.clients.docker import ContainerEngine, EngineBusy
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.domain.plain_text import require_plain

CREATING_S = 5.0  # that a container engine takes, as a rule
LATE_S = 600.0  # that one takes at most whose machine is busy
LOOK_S = 0.1
GIVEN_UP = "given-up"  # the mark


async def made(engine: ContainerEngine, name: str, config: Mapping[str, Any], berth: Path) -> None:
    """Have a container made; who is cancelled waits for it, and can take it away then.

    Raises EnvironmentUnavailable; UsageError for text that is not UTF-8, of which its engine would
    make other paths.
    """
    require_plain(config, taker="the container engine")
    creating = asyncio.ensure_future(engine.create(name, config))
    try:
        await asyncio.shield(creating)
    except asyncio.CancelledError:
        with contextlib.suppress(EnvironmentUnavailable, TimeoutError):
            async with asyncio.timeout(CREATING_S):
                await creating
        raise
    finally:
        is_over = creating.done() and not creating.cancelled()
        if not is_over or isinstance(creating.exception(), EngineBusy):
            (berth / GIVEN_UP).touch()


async def taken_back(engine: ContainerEngine, name: str, berth: Berth) -> None:
    """Take away what a start that failed has made.

    Where the engine does not answer any more, or may make it yet, its folder stays: so the janitor
    finds it again.
    """
    try:
        is_to_come = await _is_to_come(engine, name, berth.directory)
        await engine.remove(name)
    except EnvironmentUnavailable:
        is_to_come = True
    if is_to_come:
        berth.close_listener()
    else:
        berth.discard()


async def taken_late(engine: ContainerEngine, name: str, berth: Path) -> None:
    """Take away a container that may still be made for who was killed, cancelled or tired.

    It is waited for until CREATING_S after its folder was last noted in. Raises
    EnvironmentUnavailable, and EnvironmentBroken where it may come later.
    """
    with contextlib.suppress(FileNotFoundError):
        ends = time.monotonic() + CREATING_S - _age_s(berth / NOTE)
        while time.monotonic() < ends and await engine.inspect(name) is None:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(LOOK_S)
    is_to_come = await _is_to_come(engine, name, berth)
    await engine.remove(name)
    if is_to_come:
        raise EnvironmentBroken(
            f"container {name} may be made yet: its engine was asked, and has not answered",
            hint=f"`agents gc` takes it away, {LATE_S / 60:g} minutes after that at the latest",
        )


async def _is_to_come(engine: ContainerEngine, name: str, berth: Path) -> bool:
    """Whether a container that is not there may be made yet."""
    try:
        is_young = _age_s(berth / GIVEN_UP) < LATE_S
    except FileNotFoundError:
        return False
    return is_young and await engine.inspect(name) is None


def _age_s(place: Path) -> float:
    return max(0.0, time.time() - place.stat().st_mtime)


__all__ = ["CREATING_S", "GIVEN_UP", "LATE_S", "LOOK_S", "made", "taken_back", "taken_late"]
