"""What events come to in a plan's own budget, and what they move in the shared purse. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from patchyard.domain.booking import Charged, Move, SetAside, Settled
from patchyard.domain.budget import Amount, Spent, nano
from patchyard.domain.events import (
    Event,
    Moved,
    PhaseFailed,
    ToolCallRequested,
    TurnRequested,
    TurnTaken,
)
from patchyard.domain.records import replace
from patchyard.domain.sampling import ModelLent
from patchyard.domain.spending import Held, Released, Reserved, RoomAwaited
from patchyard.domain.state import PlanState

REFUSED = frozenset({"model_failed", "model_unavailable"})  # codes of requests without an answer
ANSWERED = (ModelLent, TurnTaken)
ENDING = (*ANSWERED, Released, Reserved, RoomAwaited, TurnRequested, PhaseFailed, Moved)


def settled(state: PlanState, event: Event) -> PlanState:
    """Return `state` after `event` ended what was set aside; an answer is counted elsewhere.

    A request that is neither answered nor refused is lost, and counts as all that it could cost.
    """
    if not isinstance(event, ENDING):
        return state
    held, spent = state.held, state.spent
    if held is not None and not isinstance(event, ANSWERED) and not _is_free(event):
        spent = _with(spent, held.reserved)
    return replace(state, held=None, awaits_room="", spent=spent)


def _with(spent: Spent, lost: Reserved) -> Spent:
    return replace(
        spent,
        usd=spent.usd + (lost.usd or 0.0),
        is_priced=spent.is_priced and lost.usd is not None,
        input_tokens=spent.input_tokens + lost.input_tokens,
        output_tokens=spent.output_tokens + lost.output_tokens,
    )


def _is_free(event: Event) -> bool:
    if isinstance(event, PhaseFailed):
        return is_refusal(event)
    return isinstance(event, Released)


def is_refusal(event: PhaseFailed) -> bool:
    """Whether a phase failed because a provider would not take a request: it cost nothing."""
    return event.code in REFUSED and not event.details.get("retryable")


def _reserved(state: PlanState, event: Reserved, version: int) -> PlanState:
    return replace(state, held=Held(number=version, reserved=event))


def _awaited(state: PlanState, event: RoomAwaited, _version: int) -> PlanState:
    return replace(state, awaits_room=event.text)


def _lent(state: PlanState, event: ModelLent, _version: int) -> PlanState:
    spent = replace(
        state.spent,
        steps=state.spent.steps + 1,
        usd=state.spent.usd + (event.usd or 0.0),
        is_priced=state.spent.is_priced and event.usd is not None,
        input_tokens=state.spent.input_tokens + event.input_tokens,
        output_tokens=state.spent.output_tokens + event.output_tokens,
    )
    return replace(state, spent=spent)


HANDLERS: Mapping[type[Any], Callable[[PlanState, Any, int], PlanState]] = {
    ModelLent: _lent,
    Reserved: _reserved,
    RoomAwaited: _awaited,
}


def moves(state: PlanState, event: Event) -> Sequence[Move]:
    """Return what `event`, the next after `state`, moves in the purse that plans share."""
    found: list[Move] = []
    if state.held is not None and isinstance(event, ENDING):
        found.append(Settled(number=state.held.number, amount=_outcome(state.held, event)))
    elif isinstance(event, ModelLent) or (isinstance(event, TurnTaken) and event.asked_model):
        found.append(Charged(amount=_answer(event), is_due=True))
    if isinstance(event, Reserved):
        found.append(SetAside(number=state.version + 1, amount=event.amount))
    elif isinstance(event, (ModelLent, TurnRequested)):
        found.append(Charged(amount=Amount(steps=1)))
    elif isinstance(event, ToolCallRequested):
        found.append(Charged(amount=Amount(calls=1)))
    return found


def _outcome(held: Held, event: Event) -> Amount:
    if isinstance(event, ANSWERED):
        return _answer(event)
    return Amount() if _is_free(event) else held.reserved.amount


def _answer(taken: ModelLent | TurnTaken) -> Amount:
    return Amount(nano_usd=nano(taken.usd or 0.0), tokens=taken.input_tokens + taken.output_tokens)


__all__ = ["HANDLERS", "REFUSED", "is_refusal", "moves", "settled"]
