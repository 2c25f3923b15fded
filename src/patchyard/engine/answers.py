"""Waiting for others, within bounds: a toolbox that falls silent, a step that must not be cut."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from patchyard.contracts.environment import Toolbox
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.tooling import finite

T = TypeVar("T")

USUAL_S = 120.0  # of a call that names no time-out of its own
SLACK_S = 30.0  # beyond a call's own time-out, which the toolbox keeps


async def answer_in_time(waiting: Awaitable[T], args: Mapping[str, Any]) -> T:
    """Await a toolbox's answer to a call with `args`, never much longer than its own time-out.

    Raises EnvironmentBroken when none comes: what says nothing is not waited for.
    """
    limit = finite(args.get("timeout_s"), USUAL_S) + SLACK_S
    try:
        async with asyncio.timeout(limit) as scope:
            return await waiting
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise EnvironmentBroken(f"the toolbox gave no answer within {limit:g} s") from error


async def cancelled(toolbox: Toolbox, call_id: str) -> None:
    """Kill a call's whole tree, within a bound, while the engine itself is cancelled."""
    try:
        async with asyncio.timeout(2.0):
            await asyncio.shield(toolbox.cancel(call_id))
    except (TimeoutError, EnvironmentBroken):
        return  # ending the environment kills what is left


async def whole(
    work: Awaitable[T],
    *,
    undo: Callable[[T], Awaitable[object]] | None = None,
    hurry: Callable[[], object] | None = None,
) -> T:
    """Await `work` to its end even when cancelled, `undo` what it made then, and raise that.

    For what a thread does: it goes on when nobody waits, and what it made would have no owner.
    `hurry` tells it that nobody wants the rest.
    """
    task = asyncio.ensure_future(work)
    cut = await _outwaited(task, hurry)
    if cut is None:
        return task.result()
    is_made = not task.cancelled() and task.exception() is None  # asked, or asyncio prints it
    if undo is not None and is_made:
        await _outwaited(asyncio.ensure_future(undo(task.result())))
    raise cut


async def _outwaited(
    task: "asyncio.Future[T]", hurry: Callable[[], object] | None = None
) -> asyncio.CancelledError | None:
    """Wait until `task` is over, however often that is cancelled; return the first of these."""
    cut: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cut = cut or error
            if hurry is not None:
                hurry()
    return cut


__all__ = ["SLACK_S", "USUAL_S", "answer_in_time", "cancelled", "whole"]
