"""The end of a plan's time: its own, and what the plans of a project, a day or all may take.

Shared time is set aside a slice ahead and booked as it passes, so that plans at work at once never
pass its limit; what a killed process had set aside counts as passed.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from patchyard.domain.booking import SetAside, Settled
from patchyard.domain.budget import Amount
from patchyard.domain.errors import LimitReached, PatchyardError
from patchyard.engine.budgeting import raise_hint
from patchyard.engine.enduring import Enduring
from patchyard.engine.ledger import Ledger
from patchyard.engine.parting import FAILURES

SLICE_MS = 20_000
TROUBLED_S = 1.0  # before a journal in trouble is asked again
LEAST_MS = 1_000  # a shorter slice is not begun


class Deadline:
    """The end of a plan's time in one phase, which moves with its limit."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._endures = Enduring(through=(LimitReached,))
        self._scope: asyncio.Timeout | None = None
        self._spent = 0.0
        self._began = 0.0
        self._limit: float | None = None
        self._refused: LimitReached | None = None
        self._slice = (0, 0.0)  # milliseconds set aside, and since when

    @asynccontextmanager
    async def bounded(self) -> AsyncIterator[None]:
        """Raise LimitReached when the plan's time, or the shared one, is used up."""
        self._spent, self._began = self._ledger.state.spent.seconds, _now()
        self._refused = None
        await self._ledger.lose()  # what a life that was killed had set aside
        await self._next_slice()
        try:
            async with asyncio.timeout(None) as scope:
                self._scope = scope
                self.set(self._ledger.state.limits.seconds)
                async with _alongside(self._keep()):
                    yield
        except FAILURES as error:  # also of what could not be ended: the limit led to that
            if not scope.expired():
                raise
            raise self._end() from error
        finally:
            self._scope = None
            with suppress(PatchyardError):  # it stays set aside, and counts as all of it
                await self._ledger.book(self._settled())

    def set(self, seconds: float | None) -> None:
        """Let the plan have so many seconds over all phases; None: any number."""
        self._limit = seconds
        if self._scope is not None and not self._scope.expired():
            ends = None if seconds is None else self._began + max(0.0, seconds - self._spent)
            self._scope.reschedule(ends)

    def _end(self) -> LimitReached:
        if self._refused is not None:
            return self._refused
        retry = self._ledger.state.steered.retry
        why = f", and what it waited for had failed: {retry.message}" if retry else ""
        return LimitReached(
            f"the time limit of {self._limit:g} s is reached{why}",
            limit_name="seconds",
            hint=raise_hint(self._ledger.plan_id, "seconds"),
        )

    async def _keep(self) -> None:
        """Set the next slice aside before the present one is over, until none is to be had.

        A journal in trouble is asked again: time that passes meanwhile is booked then.
        """
        while True:
            length, since = self._slice
            await asyncio.sleep(max(0.0, since + length / 1000 - _now()))
            try:
                with self._endures.passing("the time of the plan") as keeping:
                    await self._next_slice()
                if keeping.error is not None:
                    await asyncio.sleep(TROUBLED_S)
            except LimitReached as refused:
                self._refused = refused
                if self._scope is not None:
                    self._scope.reschedule(_now())
                return

    async def _next_slice(self) -> None:
        """Book the slice that has passed, and set the next one aside. Raises LimitReached."""
        settled = self._settled()
        try:
            await self._ledger.book(settled, self._slice_of(SLICE_MS))
            length = SLICE_MS
        except LimitReached:
            length = await self._room()
            if length < LEAST_MS:
                raise
            await self._ledger.book(settled, self._slice_of(length))
        self._slice = (length, _now())

    async def _room(self) -> int:
        """Return how much shared time nobody has used or set aside, the present slice included."""
        left = [
            ceiling.ms - tally.taken.ms
            for _, ceiling, tally in await self._ledger.accounts()
            if ceiling.ms is not None
        ]
        return min(left, default=SLICE_MS)

    def _settled(self) -> Settled:
        length, since = self._slice
        passed = min(length, round((_now() - since) * 1000))
        return Settled(number=self._number, amount=Amount(ms=passed))

    def _slice_of(self, length: int) -> SetAside:
        return SetAside(number=self._number, amount=Amount(ms=length))

    @property
    def _number(self) -> int:
        """What names the slice in the purse: another of each owner, and of no request."""
        hold = self._ledger.hold
        return 0 if hold is None else -hold.lease.generation


@asynccontextmanager
async def _alongside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let `work` go on while the block does."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _now() -> float:
    return asyncio.get_running_loop().time()


__all__ = ["LEAST_MS", "SLICE_MS", "Deadline"]
