"""Waits for the end of an environment that has let go of its connection."""

import asyncio

from patchyard.contracts.environment import Environment, Metering
from patchyard.domain.environment import EnvironmentHandle
from patchyard.domain.usage import Health

DYING_S = 0.05  # between two looks at one that may be about to end
LOOKS = 20


async def health_at_end(environment: Environment, handle: EnvironmentHandle) -> Health | None:
    """Return the health of one that has ended; None where it lives on, or its kind cannot tell."""
    if not isinstance(environment, Metering):
        return None
    health = await environment.health(handle)
    for _ in range(LOOKS):
        if not health.is_alive:
            break
        await asyncio.sleep(DYING_S)
        health = await environment.health(handle)
    return None if health.is_alive else health


__all__ = ["DYING_S", "LOOKS", "health_at_end"]
