"""Calls a second of many places at once, each carrying out one call after the other.

Standard library only: each contender's density driver imports it in its own environment.
"""

import asyncio
import time


async def calls_per_s(places, call, seconds):
    """Return how many calls a second all places carry out together."""
    until = time.monotonic() + seconds

    async def busy(place):
        done = 0
        while time.monotonic() < until:
            await call(place)
            done += 1
        return done

    started = time.monotonic()
    done = sum(await asyncio.gather(*map(busy, places)))
    return done / (time.monotonic() - started)
