"""Pays for one plan: sets aside the most a request can cost, in its own limits and the shared ones.

The intent of a turn and what is set aside for it are written in one step, and a refusal writes
neither. Requests of other plans that are under way hold room which they will mostly not need:
it is waited for, not counted as gone.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from patchyard.contracts.model import OnWait
from patchyard.domain.budget import RAISING, Ask, affordable, passed_limit
from patchyard.domain.errors import LimitReached
from patchyard.domain.events import TurnRequested
from patchyard.domain.spending import Released, Reserved, RoomAwaited
from patchyard.domain.spending_fold import settled
from patchyard.domain.state import PlanState
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.steering import Steering

T = TypeVar("T")

LEAST_TOKENS = 512  # of an answer: in less nothing can be said, and it would be paid for
AMPLE_TOKENS = 4_096  # a longer answer is rare: with room for one nobody waits
WAIT_S = 300.0  # for others that have a shared budget set aside
POLL_S = 0.1
ANSWERED = frozenset({"tokens", "usd"})  # what a shorter answer takes less of


class PlanMeter:
    """contracts.model.Meter of one plan, while one process works on it."""

    def __init__(
        self,
        equipment: Equipment,
        ledger: Ledger,
        steering: Steering,
        *,
        on_wait: OnWait | None = None,
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._steering = steering
        self._on_wait = on_wait
        self._intent: TurnRequested | None = None

    async def admit(self) -> None:
        """Raise LimitReached when a limit of the plan allows no further turn."""
        await self._asked_twice(lambda: require_turn(self._ledger.state))

    async def _asked_twice(self, look: Callable[[], T]) -> T:
        """Look, and look again where a limit is in the way: it may have been raised meanwhile."""
        try:
            return look()
        except LimitReached:
            await self._steering.take_in()
            return look()

    def begin(self, intent: TurnRequested) -> None:
        """Note a turn that is about to be asked for; it is recorded with its first request."""
        self._intent = intent

    async def end(self) -> None:
        """Record the turn now, where no model had to be asked for it."""
        if self._intent is not None:
            await self._ledger.record(self._intent)
            self._intent = None

    async def reserve(self, ask: Ask) -> int:
        """See contracts.model.Meter."""
        longest = await self._asked_twice(lambda: self._own_room(ask))
        wanted = longest
        ends = self._equipment.clock.monotonic() + WAIT_S
        while True:
            try:
                await self._record(ask, wanted)
            except LimitReached as refused:
                if refused.details.get("measure") not in ANSWERED:
                    raise
                wanted = min(longest, await self._room(ask, refused, longest, ends))
            else:
                return wanted

    async def _room(self, ask: Ask, refused: LimitReached, longest: int, ends: float) -> int:
        """Return the longest answer that others leave room for, once it is long enough.

        Raises `refused` when it will not be.
        """
        least, ample = _least(ask), min(longest, AMPLE_TOKENS)
        is_told = False
        while True:
            rows = await self._ledger.accounts()
            fits = min(affordable(ask, ceiling, tally.taken) for _, ceiling, tally in rows)
            if fits >= ample:
                return fits
            possible = min(affordable(ask, ceiling, tally.spent) for _, ceiling, tally in rows)
            is_over = self._equipment.clock.monotonic() > ends
            if possible < least or is_over or not await self._is_held():
                if fits < least:
                    raise refused
                return fits
            if not is_told:
                await self._say(refused)
                is_told = True
            await asyncio.sleep(POLL_S)

    def release(self, reason: str) -> None:
        """See contracts.model.Meter."""
        if self._ledger.state.held is not None:
            self._ledger.note(Released(reason=reason[:500]))

    def _own_room(self, ask: Ask) -> int:
        """Return the longest answer that the plan's own limits allow. Raises LimitReached."""
        state = self._ledger.state
        lost = settled(state, TurnRequested(turn=0))  # a request before this one is lost now
        limits, spent = state.limits, lost.spent
        ceiling = limits.ceiling(is_priced=ask.is_priced and spent.is_priced)
        longest = affordable(ask, ceiling, spent.amount)
        least = _least(ask)
        if longest >= least:
            return longest
        more = ask.amount(least)
        if ceiling.tokens is not None and spent.tokens + more.tokens > ceiling.tokens:
            name, limit = "tokens", f"the limit of {ceiling.tokens} tokens"
            used, wanted = f"{spent.tokens:,} are used", f"{more.tokens:,}"
        else:
            name, limit = "usd", f"the limit of {limits.usd:g} USD"
            used, wanted = f"{spent.usd:.4f} are used", f"{ask.usd(least) or 0.0:.4f}"
        raise LimitReached(
            f"{limit} of this plan has no room: {used}, and the next request may take {wanted}",
            limit_name=name,
            hint=raise_hint(self._ledger.plan_id, name),
        )

    async def _record(self, ask: Ask, output_tokens: int) -> None:
        reserved = Reserved(
            input_tokens=ask.input_tokens,
            output_tokens=output_tokens,
            usd=ask.usd(output_tokens),
        )
        intent = () if self._intent is None else (self._intent,)
        await self._ledger.record(*intent, reserved)
        self._intent = None

    async def _is_held(self) -> bool:
        """Whether others hold room and live; what the dead held is settled at its most."""
        is_any = False
        purse = self._equipment.store.purse
        for plan_id, amount in (await purse.holders()).items():
            if plan_id == self._ledger.plan_id:
                continue
            if await self._equipment.claims.holder(plan_id) is None:
                await purse.lose(plan_id)
            else:
                is_any = is_any or bool(amount.tokens or amount.nano_usd)
        return is_any

    async def _say(self, refused: LimitReached) -> None:
        text = f"room in {refused.details['setting']}, which other plans have set aside"
        await self._ledger.record(RoomAwaited(text=text))
        if self._on_wait is not None:
            self._on_wait(text)


def raise_hint(plan_id: str, name: str) -> str:
    """Return the commands that raise the plan's own limit `name` and go on."""
    return (
        f"`agents plan limit {plan_id} {RAISING[name]}` raises it,"
        f" `agents plan resume {plan_id}` goes on; nothing is lost"
    )


def require_turn(state: PlanState) -> None:
    """Raise LimitReached where one of the plan's own limits is reached."""
    limit = passed_limit(state.limits, state.spent)
    if limit is not None:
        hint = raise_hint(state.plan_id, limit.name)
        raise LimitReached(limit.told, limit_name=limit.name, hint=hint)


def require_call(state: PlanState) -> None:
    """Raise LimitReached where the plan's own limits allow no further call of a tool.

    Those of other roles that worked for it count.
    """
    most = state.limits.calls
    if most is not None and state.tool_calls + state.colleagues.calls >= most:
        calls = "1 call of a tool" if most == 1 else f"{most} calls of tools"
        hint = raise_hint(state.plan_id, "calls")
        raise LimitReached(f"the limit of {calls} is reached", limit_name="calls", hint=hint)


def _least(ask: Ask) -> int:
    return min(LEAST_TOKENS, ask.output_tokens)


__all__ = [
    "AMPLE_TOKENS",
    "LEAST_TOKENS",
    "PlanMeter",
    "raise_hint",
    "require_call",
    "require_turn",
]
