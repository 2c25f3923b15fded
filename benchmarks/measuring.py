"""How a measure is declared and taken; knows nothing of what is measured.

A measure is an asv `track_` function that returns one number, with a label and the figure it
should stay under beside it. It raises NotImplementedError where the machine lacks what it needs.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

__all__ = ["measured", "median_ms", "median_ms_async"]

Measure = TypeVar("Measure", bound=Callable[[], float])


def measured(
    label: str, *, target: float | None = None, unit: str = "ms"
) -> Callable[[Measure], Measure]:
    """Says what a `track_` function measures, and the figure to stay under, if any, in `unit`."""

    def declare(measure: Measure) -> Measure:
        declared: Any = measure  # functions take attributes, which their type does not say
        declared.label, declared.target, declared.unit = label, target, unit
        return measure

    return declare


def median_ms(action: Callable[[], object], *, repeats: int) -> float:
    """The median time of `action` in milliseconds, after one run that does not count."""
    action()
    return statistics.median(_once_ms(action) for _ in range(repeats))


def _once_ms(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


async def median_ms_async(action: Callable[[], Awaitable[object]], *, repeats: int) -> float:
    """As median_ms, within a running event loop."""
    await action()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        await action()
        taken.append((time.perf_counter() - started) * 1000)
        await asyncio.sleep(0)
    return statistics.median(taken)
