"""Keeps what runs in a local environment still for a moment: by its cgroup, else by its toolbox."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

from patchyard.clients import cgroups
from patchyard.clients.berths import from_details
from patchyard.contracts.environment import Toolbox
from patchyard.domain.environment import EnvironmentHandle
from patchyard.domain.errors import EnvironmentBroken

FREEZING_S = 0.2  # a group that does not stand still by then is let go
PAUSE_S = 0.001
ANSWER_S = 3.0  # of a toolbox that stops what it started


@contextlib.asynccontextmanager
async def frozen(
    handle: EnvironmentHandle, process: str, toolbox: Toolbox, *, hides_processes: bool = False
) -> AsyncIterator[bool]:
    """Let nothing run there during the block; yield False where something may.

    `process` names the toolbox among the handle's details. A place that `hides_processes` has a
    kernel of its own, as gVisor has: its toolbox is asked, since threads of such a kernel that the
    host freezes lose the memory of what they run (seen with gVisor's platform systrap).
    """
    group = tuple(str(place) for place in handle.details.get("group", ()))
    if not hides_processes and not _is_busy(handle, process):
        yield True
    elif can_freeze(group) and not hides_processes:
        try:
            yield await asyncio.to_thread(_freeze, group)
        finally:
            cgroups.thaw(group)
    else:
        async with stopped(toolbox) as is_whole:
            yield is_whole


def _is_busy(handle: EnvironmentHandle, process: str) -> bool:
    """Whether the toolbox has a child: it adopts what others leave behind."""
    found = from_details(handle, process)
    if found is None:
        return False
    children = Path(f"/proc/{found.pid}/task/{found.pid}/children")
    try:
        return bool(children.read_bytes())
    except FileNotFoundError:
        return found.is_alive  # this kernel does not say


def can_freeze(group: tuple[str, ...]) -> bool:
    """Whether the group can be frozen by us."""
    files = (Path(place, name) for place in group for name in ("freezer.state", "cgroup.freeze"))
    return any(os.access(file, os.W_OK) for file in files)


def _freeze(group: tuple[str, ...]) -> bool:
    cgroups.freeze(group)
    deadline = time.monotonic() + FREEZING_S
    while not is_frozen(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_S)
    return True


def is_frozen(group: tuple[str, ...]) -> bool:
    """Whether all in the group stands still."""
    for place in group:
        with contextlib.suppress(OSError):
            if Path(place, "freezer.state").read_text().strip() == "FROZEN":
                return True
        with contextlib.suppress(OSError):
            if "frozen 1" in Path(place, "cgroup.events").read_text():
                return True
    return False


@contextlib.asynccontextmanager
async def stopped(toolbox: Toolbox) -> AsyncIterator[bool]:
    """Let the toolbox stop what it started; by itself it lets that go on after some seconds."""
    call_id = f"freeze-{os.urandom(8).hex()}"
    is_whole = False
    try:
        with contextlib.suppress(EnvironmentBroken, TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                is_whole = (await toolbox.call(call_id, "freeze", {})).get("is_whole") is True
        yield is_whole
    finally:
        with contextlib.suppress(EnvironmentBroken, TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                await toolbox.call(f"{call_id}-end", "thaw", {})
                await toolbox.forget((call_id, f"{call_id}-end"))


__all__ = ["ANSWER_S", "FREEZING_S", "PAUSE_S", "can_freeze", "frozen", "is_frozen", "stopped"]
