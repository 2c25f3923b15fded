"""Files and conversation of a plan, taken back together to one of its checkpoints."""

from patchyard.domain.checkpoint import RolledBack
from patchyard.domain.errors import GuardRefused, StateRefusal, UnknownName, UsageError
from patchyard.domain.events import ToolCallSettled
from patchyard.domain.marks import Mark
from patchyard.domain.state import PlanState
from patchyard.engine.checkpoints import bring_back, require_contents
from patchyard.engine.equipment import Equipment
from patchyard.engine.grounds import working_ground
from patchyard.engine.ledger import Ledger
from patchyard.engine.places import ended
from patchyard.engine.stopping import hush

SHOWN = 40  # checkpoints that a refusal lists, newest last


def find_mark(state: PlanState, text: str) -> Mark:
    """Return the checkpoint that `text` names: its id, or enough of its beginning or end.

    Raises UnknownName, UsageError where it fits several; both list those there are.
    """
    typed = text.strip().upper()
    marks = state.checkpoints
    found = [mark for mark in marks if mark.checkpoint_id == typed]
    if not found and typed:
        found = [mark for mark in marks if _fits(mark.checkpoint_id, typed)]
    if len(found) == 1:
        return found[0]
    listed = "".join(f"\n  {told(mark)}" for mark in marks[-SHOWN:]) or " none was made yet"
    details = {"name": text, "known": [mark.checkpoint_id for mark in marks]}
    hint = f"known:{listed}"
    if found:
        raise UsageError(f"{text} fits {len(found)} checkpoints", hint=hint, details=details)
    message = f"plan {state.plan_id} has no checkpoint {text!r}" if text else "name a checkpoint"
    raise UnknownName(message, hint=hint, details=details)


def _fits(checkpoint_id: str, typed: str) -> bool:
    return checkpoint_id.startswith(typed) or checkpoint_id.endswith(typed)


def told(mark: Mark) -> str:
    """Return one checkpoint as people read it."""
    what = f"{mark.trigger} {mark.tool}".strip().replace("_tool_execute", "")
    fuzzy = ", fuzzy" if mark.is_fuzzy else ""
    return f"{mark.checkpoint_id} (turn {mark.turn}, {what}{fuzzy})"


async def roll_back(
    equipment: Equipment, ledger: Ledger, mark: Mark, *, reason: str = ""
) -> PlanState:
    """Take an owned plan back to `mark`; the next resume thinks on from there.

    Raises GuardRefused where something of it is handed over, StateRefusal where nothing can be
    brought back, JournalBroken when a content is lost: nothing is changed then.
    """
    state = ledger.state
    _require_nothing_handed(state)
    if state.base is None:
        raise StateRefusal(
            f"plan {state.plan_id} has no base yet, so there is nothing to go back to",
            hint="begin the task anew with `agents run`",
        )
    await require_contents(equipment, ledger, mark.checkpoint_id)
    for live in list(state.environments.values()):
        await ended(equipment, ledger, live.handle, "rolled back")
    open_calls = [
        ToolCallSettled(
            call_id=call_id, success=False, message="the plan was rolled back", error="CANCELLED"
        )
        for call_id in ledger.state.open_calls
    ]
    await hush(equipment, ledger, "rolled back")
    checkpoint_id = mark.checkpoint_id
    back = RolledBack(checkpoint_id=checkpoint_id, version=mark.version, reason=reason)
    if state.workspace is None:  # it was returned; the next one begins with these files
        await ledger.record(*open_calls, back)
        return ledger.state
    async with working_ground(equipment, ledger, state.base, ()) as workspace:
        await ledger.record(*open_calls, back)
        await bring_back(equipment, ledger, workspace, checkpoint_id)
    return ledger.state


def _require_nothing_handed(state: PlanState) -> None:
    if state.handed or state.intended is not None:
        raise GuardRefused(
            f"plan {state.plan_id} is handed over already: the work tree would not go back with it",
            hint=f"take the hand-over back first: `agents plan unapply {state.plan_id}`",
        )


__all__ = ["SHOWN", "find_mark", "roll_back", "told"]
