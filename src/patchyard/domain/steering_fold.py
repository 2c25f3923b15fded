"""What events of steering, and others as far as they touch it, make of a plan's state."""

from collections.abc import Callable, Mapping
from typing import Any

from patchyard.domain.budget import Spent
from patchyard.domain.colleagues import Colleagues
from patchyard.domain.records import replace
from patchyard.domain.state import PlanState
from patchyard.domain.steering import (
    FINDINGS_KEPT,
    ApprovalAsked,
    ApprovalUsed,
    Approved,
    Commented,
    Forked,
    Guided,
    Paused,
    PauseEnded,
    Rejected,
    RetryPlanned,
    Reverted,
)


def _with(state: PlanState, **changes: Any) -> PlanState:
    return replace(state, steered=replace(state.steered, **changes))


def _guided(state: PlanState, event: Guided, _version: int) -> PlanState:
    steered = state.steered
    return _with(state, guidance=(*steered.guidance, event), heard=max(steered.heard, event.word))


def _paused(state: PlanState, event: Paused, _version: int) -> PlanState:
    return _with(state, paused=event)


def _pause_ended(state: PlanState, _event: PauseEnded, _version: int) -> PlanState:
    return _with(state, paused=None)


def _asked(state: PlanState, event: ApprovalAsked, _version: int) -> PlanState:
    return _with(state, asked=event)


def _answered(state: PlanState, event: Approved | Rejected, _version: int) -> PlanState:
    return _with(state, asked=None, verdicts={**state.steered.verdicts, event.digest: event})


def _used(state: PlanState, event: ApprovalUsed, _version: int) -> PlanState:
    left = {k: v for k, v in state.steered.verdicts.items() if k != event.digest}
    return _with(state, verdicts=left)


def _retry(state: PlanState, event: RetryPlanned, _version: int) -> PlanState:
    return _with(state, retry=event)


def _reverted(state: PlanState, event: Reverted, version: int) -> PlanState:
    found = "\n\n".join(part for part in (event.reason, event.findings) if part)
    findings = (*state.steered.findings, *([found] if found else []))[-FINDINGS_KEPT:]
    state = _with(state, findings=findings, is_stale=state.workspace is not None)
    state = replace(  # the next attempt begins on the base: no result is there, and none looked at
        state, changeset=None, validation=None, summary="",
        restoring="", colleagues=Colleagues(counted=state.colleagues.counted),
        review=None, coverage=None, record=None, removal=None,
    )  # fmt: skip
    if event.to_phase == "strategize":  # what follows counts it, and begins a new transcript
        return state
    return replace(
        state,
        reverts=state.reverts + 1, attempt_starts=version, turn=0, asked=None, rounds=0,
    )  # fmt: skip


def _commented(state: PlanState, event: Commented, _version: int) -> PlanState:
    return _with(state, comments=(*state.steered.comments, event))


def _forked(state: PlanState, _event: Forked, _version: int) -> PlanState:
    return replace(state, spent=Spent(), held=None, tool_calls=0, reverts=0)


HANDLERS: Mapping[type[Any], Callable[[PlanState, Any, int], PlanState]] = {
    Guided: _guided,
    Paused: _paused,
    PauseEnded: _pause_ended,
    ApprovalAsked: _asked,
    Approved: _answered,
    Rejected: _answered,
    ApprovalUsed: _used,
    RetryPlanned: _retry,
    Reverted: _reverted,
    Commented: _commented,
    Forked: _forked,
}


def turn_asked(state: PlanState, told: int) -> PlanState:
    """A turn is asked for, with the first `told` words of guidance; no retry is waited for."""
    if not (told or state.steered.told or state.steered.retry):
        return state
    return _with(state, told=told, retry=None)


def turn_taken(state: PlanState) -> PlanState:
    """The turn came: what it was told with counts as told."""
    steered = state.steered
    if not steered.told:
        return state
    return _with(state, guidance=steered.guidance[steered.told :], told=0)


def moved(state: PlanState) -> PlanState:
    """The plan went on or back: no wait and no open question of before is left."""
    steered = state.steered
    if not (steered.retry or steered.told or steered.asked):
        return state
    return _with(state, retry=None, told=0, asked=None)


__all__ = ["HANDLERS", "moved", "turn_asked", "turn_taken"]
