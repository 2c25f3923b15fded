"""What events of checkpoints make of a plan's state."""

from collections.abc import Callable, Mapping
from typing import Any

from patchyard.domain.checkpoint import (
    CallRepeated,
    CallUndone,
    CheckpointMade,
    FilesRestored,
    RolledBack,
    Trigger,
)
from patchyard.domain.errors import JournalBroken
from patchyard.domain.events import ToolCallSettled
from patchyard.domain.growing import Growing
from patchyard.domain.marks import Mark, Past
from patchyard.domain.plan import State
from patchyard.domain.records import replace
from patchyard.domain.state import PlanState


def _made(state: PlanState, event: CheckpointMade, version: int) -> PlanState:
    past = Past(
        phase=state.phase,
        attempt_starts=state.attempt_starts,
        turn=state.turn,
        calls_of_turn=state.calls_of_turn,
        rounds=state.rounds,
        decisions=state.decisions,
        decision_root_id=state.decision_root_id,
        strategy=state.strategy,
        summary=state.summary,
        changeset=state.changeset,
        validation=state.validation,
    )
    mark = Mark(
        checkpoint_id=event.checkpoint_id,
        version=version,
        trigger=event.trigger,
        turn=event.turn,
        call_id=event.call_id,
        tool=event.tool,
        files=event.files,
        stored=event.stored,
        is_fuzzy=event.is_fuzzy,
        past=past,
    )
    return replace(state, checkpoints=state.checkpoints.grown(mark))


def _rolled_back(state: PlanState, event: RolledBack, _version: int) -> PlanState:
    """Back to what was; what was spent, started and handed over stays so."""
    kept = Growing([mark for mark in state.checkpoints if mark.version <= event.version])
    if not kept or kept[-1].checkpoint_id != event.checkpoint_id:
        raise JournalBroken(f"checkpoint {event.checkpoint_id} is none of this plan's")
    past = kept[-1].past
    is_before_turn = kept[-1].trigger == Trigger.BEFORE_TOOL and past.calls_of_turn == 0
    drops_turn = is_before_turn and not event.is_repeat
    return replace(
        state,
        **{name: getattr(past, name) for name in Past._fields if name != "turn"},
        turn=past.turn - drops_turn,
        state=State.QUEUED,
        reason=event.reason,
        asked=None,
        open_calls={},
        failure=None,
        checkpoints=kept,
        restoring=event.checkpoint_id,
        steered=replace(state.steered, is_stale=False, asked=None, told=0, retry=None),
    )


def _undone(state: PlanState, event: CallUndone, _version: int) -> PlanState:
    return replace(state, restoring=event.checkpoint_id)


def _restored(state: PlanState, _event: FilesRestored, _version: int) -> PlanState:
    return replace(state, restoring="")


def _repeated(state: PlanState, event: CallRepeated, _version: int) -> PlanState:
    call = state.open_calls.get(event.call_id)
    if call is None:
        return state
    moved = replace(call, environment_id=event.environment_id)
    return replace(
        state,
        open_calls={**state.open_calls, event.call_id: moved},
        repeats={**state.repeats, event.call_id: event.number},
    )


def settled(state: PlanState, event: ToolCallSettled) -> PlanState:
    """A call has its result: how often it was sent counts no more."""
    if event.call_id not in state.repeats:
        return state
    left = {name: count for name, count in state.repeats.items() if name != event.call_id}
    return replace(state, repeats=left)


HANDLERS: Mapping[type[Any], Callable[[PlanState, Any, int], PlanState]] = {
    CheckpointMade: _made,
    RolledBack: _rolled_back,
    CallUndone: _undone,
    FilesRestored: _restored,
    CallRepeated: _repeated,
}

__all__ = ["HANDLERS", "settled"]
