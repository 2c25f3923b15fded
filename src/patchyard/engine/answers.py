"""Waiting for others, within bounds: a toolbox that falls silent, a step that must not be cut."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from patchyard.contracts.environment import Toolbox
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.tooling import COMMAND, finite

T = TypeVar("T")

USUAL_S = 120.0  # of a call that names no time-out of its own
COMMAND_S = 30.0  # of a command that names none, as the toolbox has it (D+)
SLACK_S = 10.0  # beyond a call's own time-out, which the toolbox keeps


class _Waiting:
    """One call that is waited for."""

    __slots__ = ("limit_s", "scope")

    def __init__(self, scope: asyncio.Timeout, limit_s: float) -> None:
        self.scope = scope
        self.limit_s = limit_s  # from one answer to the next

    def begin_anew(self) -> None:
        with contextlib.suppress(RuntimeError):  # its time is up, or it is over
            self.scope.reschedule(asyncio.get_running_loop().time() + self.limit_s)


_waited_for: ContextVar[_Waiting | None] = ContextVar("_waited_for", default=None)


async def answer_in_time(waiting: Awaitable[T], args: Mapping[str, Any], *, op: str = "") -> T:
    """Await a toolbox's answer to a call of `op` with `args`: its own time-out and SLACK_S at most.

    A call may be more than one request: a workspace that is a replica is exchanged around it. Each
    answer (`heard`) gives the next one the whole time, so that no large workspace is cut off, and
    what falls silent is given up.

    Raises EnvironmentBroken when no answer comes.
    """
    usual_s = COMMAND_S if op == COMMAND else USUAL_S
    limit_s = finite(args.get("timeout_s"), usual_s) + SLACK_S
    scope = asyncio.timeout(limit_s)
    own = _Waiting(scope, limit_s)
    try:
        async with scope:
            before = _waited_for.set(own)
            try:
                return await waiting
            finally:
                _waited_for.reset(before)
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise EnvironmentBroken(f"the toolbox gave no answer within {own.limit_s:g} s") from error


def heard() -> None:
    """Note that a toolbox has answered; see `answer_in_time`."""
    own = _waited_for.get()
    if own is not None:
        own.begin_anew()


def shortened(own_s: float) -> None:
    """Note that the call that is waited for has `own_s` seconds at most, as a limit says."""
    own = _waited_for.get()
    if own is not None and own_s + SLACK_S < own.limit_s:
        own.limit_s = own_s + SLACK_S
        own.begin_anew()


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

    Where the work failed, its error is the cause of what is raised.
    For what a thread does: it goes on when nobody waits, and what it made would have no owner.
    `hurry` tells it that nobody wants the rest.
    """
    task = asyncio.ensure_future(work)
    cut = await _outwaited(task, hurry)
    if cut is None:
        return task.result()
    failure = None if task.cancelled() else task.exception()  # asked, or asyncio prints it
    if undo is not None and not task.cancelled() and failure is None:
        await _outwaited(asyncio.ensure_future(undo(task.result())))
    raise cut from failure


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


__all__ = [
    "COMMAND_S",
    "SLACK_S",
    "USUAL_S",
    "answer_in_time",
    "cancelled",
    "heard",
    "shortened",
    "whole",
]
