"""What is said where a command found its work done: that it did nothing, and what does it again."""

from patchyard.domain.lineage import REPLAYS
from patchyard.domain.plan import Phase, State
from patchyard.domain.state import PlanState
from patchyard.engine.sites import general_kind

DONE = frozenset({State.COMPLETE, State.APPLIED})
OVER = frozenset({(Phase.EXECUTE, State.COMPLETE), (Phase.APPLY, State.APPLIED)})


def nothing_done(before: PlanState, after: PlanState, *, place: str | None = None) -> str:
    """Return one line where no work was left to do, "" where something was done.

    `place` is the kind or resource that the command named for the work.
    """
    step = (before.phase, before.state)
    if before.state not in DONE or step != (after.phase, after.state):
        return ""
    if before.steered.paused is not None:
        return ""
    origin = _thinker(before)
    said = f"nothing was done: the plan is {'/'.join(step)}"
    if before.phase == Phase.STRATEGIZE:
        return f"{said}; `agents plan execute {before.plan_id}` goes on"
    again = _again(before, origin)
    kind = str(general_kind(before.known))
    if place is None or place in {kind, before.known.environment}:
        return f"{said}; {again}"
    fork = f"`agents plan fork {origin} --at 0 --no-start`"
    execute = f"`agents plan execute NEW --in {place}`"
    where = f"its work was done in {kind}, not in {place}"
    return f"{said}, {where}; to do it there, make a plan NEW by {fork}, then {execute}"


def _again(state: PlanState, origin: str) -> str:
    """Return what does the work once more: an actor is told something, a recipe takes no word."""
    if state.known.agent == "recipe":
        return f"`agents plan fork {origin} --at 0` carries out its steps once more, on the base"
    return f"`agents plan retry {origin} TEXT` tries again, from the last checkpoint, told TEXT"


def is_over(state: PlanState) -> bool:
    """Whether a resume would find nothing to do: no work, no word, no question, no hand-over."""
    if (state.phase, state.state) not in OVER or state.intended is not None:
        return False
    steered = state.steered
    if steered.paused is not None or steered.guidance or steered.asked is not None:
        return False
    is_empty = state.changeset is None or state.changeset.files == 0
    return state.applied is not None or state.known.apply_to == "none" or is_empty


def _thinker(state: PlanState) -> str:
    """Return the plan that can be forked: of a replay, which has no actor, what it replayed."""
    lineage = state.known.lineage
    is_replay = state.known.agent == REPLAYS and lineage is not None
    return lineage.plan_id if lineage is not None and is_replay else state.plan_id


__all__ = ["is_over", "nothing_done"]
