"""What lists show of a plan, made of its state."""

from collections.abc import Mapping
from typing import Any

from patchyard.domain.plan import State
from patchyard.domain.state import PlanState


def summary(state: PlanState) -> Mapping[str, Any]:
    """Return what lists show of a plan."""
    spec = state.known
    return {
        "plan_id": state.plan_id,
        "task": spec.task[:200],
        "repository": spec.repository,
        "project": spec.project,
        "action": spec.action,
        "phase": str(state.phase),
        "state": str(state.state),
        "kinship": str(spec.lineage.kinship) if spec.lineage else None,
        "note": _note(state),
        "created": state.created,
        "updated": state.updated,
    }


def stand(state: PlanState) -> tuple[object, ...]:
    """Return what of a plan's line in the list changes with its events, but for the time."""
    return (state.phase, state.state, _note(state))


def _note(state: PlanState) -> str | None:
    """Return what phase and state do not say of the plan."""
    if state.state == State.APPLIED and state.applied is None:
        return "taken back"
    if state.state == State.CANCELLED:
        return None
    if state.steered.paused is not None:
        return "paused"
    return "waits for approval" if state.steered.asked is not None else None


__all__ = ["stand", "summary"]
