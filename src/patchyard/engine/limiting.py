"""A plan's own limits, set anew: at once where nobody works on it, else by a word to its owner."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from patchyard.domain.budget import PlanLimits
from patchyard.domain.codec import to_json
from patchyard.domain.errors import Conflict, LimitReached
from patchyard.domain.events import LimitsChanged
from patchyard.engine import control
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger, load
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.steering import Steering

POLL_S = 0.05
POLLS = 100  # 5 s: how long the owner may take to a step between two calls

Setting = Callable[[PlanLimits], PlanLimits]


async def set_limits(equipment: Equipment, plan_id: str, setting: Setting) -> bool:
    """Set a plan's limits anew, whoever works on it; return whether they count already.

    Where they do not, the word is on disk and the owner takes it in before its next step.
    """
    journal, clock = equipment.store.journal, equipment.clock
    number = 0
    for _ in range(POLLS):
        try:
            async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
                await Steering(equipment, ledger).take_in()  # the word too, where it was said
                if not number:
                    await ledger.record(LimitsChanged(limits=setting(ledger.state.limits)))
        except Conflict:
            state, _ = await load(journal, plan_id)
            if not number:
                text = json.dumps(to_json(setting(state.limits)))
                number = await control.say(journal, clock, plan_id, control.LIMIT, text=text)
            elif state.steered.heard >= number:
                return True
        else:
            return True
        await asyncio.sleep(POLL_S)
    return False


class Deadline:
    """The end of a plan's time in one phase, which moves with its limit."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._scope: asyncio.Timeout | None = None
        self._spent = 0.0
        self._began = 0.0
        self._limit: float | None = None

    @asynccontextmanager
    async def bounded(self) -> AsyncIterator[None]:
        """Raise LimitReached when the plan's time is used up."""
        loop = asyncio.get_running_loop()
        self._spent, self._began = self._ledger.state.spent.seconds, loop.time()
        try:
            async with asyncio.timeout(None) as scope:
                self._scope = scope
                self.set(self._ledger.state.limits.seconds)
                yield
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise LimitReached(
                f"the time limit of {self._limit:g} s is reached",
                hint="`agents plan limit --timeout +1h` raises it, `agents plan resume` goes on",
            ) from error
        finally:
            self._scope = None

    def set(self, seconds: float | None) -> None:
        """Let the plan have so many seconds over all phases; None: any number."""
        self._limit = seconds
        if self._scope is not None and not self._scope.expired():
            ends = None if seconds is None else self._began + max(0.0, seconds - self._spent)
            self._scope.reschedule(ends)


__all__ = ["POLLS", "POLL_S", "Deadline", "Setting", "set_limits"]
