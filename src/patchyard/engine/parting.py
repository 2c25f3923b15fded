"""The end of work that was told to stop: by its time limit, a signal, a person.

What a far side is asked for then shares a few seconds. What has not ended by then stays known, and
a later pass ends it. The stop stays the reason, whatever fails on the way out.
"""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from patchyard.domain.errors import EnvironmentBroken, Unavailable

T = TypeVar("T")

PARTING_S = 5.0  # for all: a plan ends within its limit and 10 s, also where hosts lie
LEAST_S = 0.5  # for each, whatever the others took
FAILURES = (EnvironmentBroken, Unavailable, OSError)
"""What the end of an environment or of a connection fails with."""


class Parting:
    """The time that is left to one plan's ends once it is told to stop."""

    def __init__(self) -> None:
        self._is_begun = False
        self._until: float | None = None

    def begin(self) -> None:
        """Say that the plan was told to stop, where the task that ends it was not cancelled."""
        self._is_begun = True

    @property
    def has_begun(self) -> bool:
        """Whether the plan, or this very task, was told to stop."""
        return self._is_begun or is_told_to_stop()

    @property
    def left_s(self) -> float | None:
        """How long one more end may take; None: as long as it takes."""
        if not self.has_begun:
            return None
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + PARTING_S
        return max(LEAST_S, self._until - now)


_parting: ContextVar[Parting | None] = ContextVar("_parting", default=None)


@contextmanager
def parting() -> Iterator[Parting]:
    """Let all ends within the block share one time, those of its further tasks too."""
    own = Parting()
    before = _parting.set(own)
    try:
        yield own
    finally:
        _parting.reset(before)


def present() -> Parting:
    """Return what the ends of this plan share; one of its own where there is no plan."""
    return _parting.get() or Parting()


def is_told_to_stop() -> bool:
    """Whether this task was cancelled, by a time limit too, and is on its way out."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def in_time(work: Awaitable[T]) -> T:
    """Await a far side to its end even when cancelled, then for as long as the parting leaves.

    Raises EnvironmentBroken when that is over, and the CancelledError once `work` has ended.
    """
    task, own = asyncio.ensure_future(work), present()
    cut: asyncio.CancelledError | None = None
    is_late = False
    while not task.done():
        try:
            done, _ = await asyncio.wait([task], timeout=own.left_s)
        except asyncio.CancelledError as error:
            cut = cut or error
            continue
        if not done:
            is_late = True
            task.cancel()
    failure = None if task.cancelled() else task.exception()  # asked, or asyncio prints it
    if cut is not None:
        raise cut from failure
    if is_late and task.cancelled():
        raise EnvironmentBroken("it gave no answer in the few seconds that a stop leaves it")
    return task.result()


async def let_go(closing: Awaitable[None]) -> None:
    """Close a connection; once the plan was told to stop, wait for a short time only."""
    own = present()
    left_s = own.left_s
    try:
        async with asyncio.timeout(None if left_s is None else left_s / 2):
            await closing
    except FAILURES:
        if not own.has_begun:
            raise


@contextmanager
def stopping_first() -> Iterator[None]:
    """Raise CancelledError where a failure on the way out has taken the place of it."""
    try:
        yield
    except FAILURES as failure:
        if is_told_to_stop():
            raise asyncio.CancelledError from failure
        raise


__all__ = [
    "FAILURES",
    "LEAST_S",
    "PARTING_S",
    "Parting",
    "in_time",
    "is_told_to_stop",
    "let_go",
    "parting",
    "present",
    "stopping_first",
]
