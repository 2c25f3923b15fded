"""How a container of ours ended, as its engine tells it."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchyard.clients.containers import id_of
from patchyard.clients.docker import connected
from patchyard.domain.environment import EnvironmentHandle
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.domain.usage import Health

NOTICE_S = 3.0  # until its engine knows that one has ended
REMOVED = "its container is not there any more: it was removed"


async def with_ending(found: Health, handle: EnvironmentHandle) -> Health:
    """Return the health of a container that has ended, with how, and whether memory was why.

    As it was where the engine does not answer. Never raises for that.
    """
    with contextlib.suppress(EnvironmentUnavailable, TimeoutError):
        async with connected(str(handle.details.get("engine"))) as engine:
            container = id_of(handle)
            async with asyncio.timeout(NOTICE_S):
                await engine.ended(container)
                made = await engine.inspect(container)
            if made is None:
                return replace(found, ending=REMOVED)
            state: Mapping[str, Any] = made.get("State") or {}
            limit = found.limit or "memory" * bool(state.get("OOMKilled"))
            return replace(found, limit=limit, ending=_told(state, limit))
    return found


def _told(state: Mapping[str, Any], limit: str) -> str:
    words = f"its container ended with exit code {state.get('ExitCode')}"
    return f"{words} (out of memory)" if limit == "memory" else words


__all__ = ["NOTICE_S", "REMOVED", "with_ending"]
