"""What a plan waits for, in words."""

from typing import Any

from patchyard.domain.events import ToolCallRequested
from patchyard.domain.plan import Phase, State
from patchyard.domain.state import PlanState
from patchyard.engine.approving import by_hand, rejection


def waiting(state: PlanState) -> dict[str, Any] | None:
    """Return what the plan waits for and since when, None when it waits for nothing."""
    text = _held(state) or _working(state)
    return {"for": text, "since": state.updated} if text else None


def is_held(state: PlanState) -> bool:
    """Whether only a person's word lets the plan go on."""
    return bool(_held(state))


def approval(state: PlanState) -> dict[str, Any] | None:
    """Return the question that is open, None when there is none."""
    asked = state.steered.asked
    if asked is None:
        return None
    return {
        "approval_id": asked.approval_id,
        "subject": str(asked.subject),
        "name": asked.name,
        "digest": asked.digest,
        "shown": asked.shown,
        "why": asked.why,
    }


def _held(state: PlanState) -> str:
    steered = state.steered
    if steered.paused is not None and state.state != State.CANCELLED:
        return f"`agents plan resume {state.plan_id}`: it is paused"
    if steered.asked is not None:
        what = f"{steered.asked.name}: {steered.asked.shown}"
        return f"`agents plan approve {state.plan_id}` or `reject`: {what}"
    for phase in (Phase.EXECUTE, Phase.APPLY):
        if state.spec is not None and (said_no := rejection(state, phase)):
            way = by_hand(phase, state.plan_id)
            return f"`agents plan revert {state.plan_id}` or {way}: {said_no}"
    return ""


def _working(state: PlanState) -> str:
    if state.state != State.PROCESSING:
        return ""
    retry = state.steered.retry
    if retry is not None:
        of = f" of {retry.most}" if retry.most else ""
        return f"retry {retry.number}{of}, {retry.wait_s:g} s after: {retry.message}"
    if state.open_calls:
        return _of_call(state, list(state.open_calls.values())[-1])
    if state.awaits_room:
        return state.awaits_room
    if state.asked is not None:
        return f"the actor's turn {state.asked.turn}"
    return f"the next step of {state.phase}"


def _of_call(state: PlanState, call: ToolCallRequested) -> str:
    asked = state.inquiries.open.get(call.call_id)
    if asked is not None:
        return f"the answer of the {asked.role}, in plan {asked.colleague_id}"
    return f"{call.name} in {call.kind or 'the engine'}"


__all__ = ["approval", "is_held", "waiting"]
