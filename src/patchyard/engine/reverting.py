"""Going back: to a new strategy, or to the same one carried out anew; counted and bounded."""

from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.automation import MOST_REVERTS, automation
from patchyard.domain.errors import GuardRefused, PatchyardError
from patchyard.domain.events import Moved, WorkspaceRemoved
from patchyard.domain.gate_verdicts import shown_finding
from patchyard.domain.meanings import restored
from patchyard.domain.plan import Phase, State
from patchyard.domain.retry import OF_STRATEGY
from patchyard.domain.state import PlanState
from patchyard.domain.steering import Reverted
from patchyard.engine.answers import whole
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.stopping import hush, stop

FINDINGS_CHARS = 6000
OUTPUT_CHARS = 2000  # of each gate

_QUEUED = {
    Phase.STRATEGIZE: Moved(phase=Phase.STRATEGIZE, state=State.QUEUED),
    Phase.EXECUTE: Moved(phase=Phase.EXECUTE, state=State.QUEUED),
}


async def revert(
    equipment: Equipment, ledger: Ledger, *, to: Phase, reason: str = "", by: str
) -> None:
    """Take an owned plan back to `to`; its next attempt is told what the last one came to.

    Raises GuardRefused where the plan cannot go back, or did so too often.
    """
    _require(ledger.state, to)
    if ledger.state.state == State.PROCESSING:  # paused, or left behind by a crash
        await stop(equipment, ledger, "reverted")
    await hush(equipment, ledger, "reverted")
    found = await findings(ledger)
    reverted = Reverted(to_phase=str(to), reason=reason, findings=found, by=by)
    await ledger.record(reverted, *_moves(ledger.state, to))


def may_by_itself(error: PatchyardError, state: PlanState) -> bool:
    """Whether a plan that ended with `error` goes back to strategize without being told."""
    allowed = automation(state.known.automation_profile).reverts
    is_found = error.code in OF_STRATEGY and state.turn > 0
    return is_found and state.phase == Phase.EXECUTE and state.reverts < allowed


async def freshened(equipment: Equipment, ledger: Ledger) -> None:
    """Take away the tree of an attempt that was given up, so that the next begins on the base."""
    state = ledger.state
    if not state.steered.is_stale or state.workspace is None:
        return
    workspace = restored(WorkspaceRef, state.workspace)
    async with ledger.sole():
        await whole(equipment.workspaces.remove(workspace))
    await ledger.record(WorkspaceRemoved(workspace_id=workspace.workspace_id))


def _require(state: PlanState, to: Phase) -> None:
    plan, here = state.plan_id, f"{state.phase}/{state.state}"
    if to == Phase.EXECUTE and state.phase not in {Phase.EXECUTE, Phase.APPLY}:
        raise GuardRefused(f"plan {plan} is at {here}: execute has not begun")
    if (state.phase, state.state) in {
        (Phase.ACTION, State.QUEUED),
        (Phase.STRATEGIZE, State.QUEUED),
    }:
        raise GuardRefused(
            f"plan {plan} is at {here}: there is nothing to go back from",
            hint=f"`agents plan prompt {plan} TEXT` tells it something, `agents plan resume {plan}`"
            " begins",
        )
    if to == Phase.EXECUTE and (state.phase, state.state) == (Phase.EXECUTE, State.QUEUED):
        raise GuardRefused(
            f"plan {plan} is at {here} already", hint=f"`agents plan resume {plan}` begins it"
        )
    if state.applied is not None or state.state == State.APPLIED:
        raise GuardRefused(
            f"plan {plan} is handed over",
            hint=f"`agents plan unapply {plan}` takes it back; it can be reverted then",
        )
    if state.intended is not None or (state.phase, state.state) == (Phase.APPLY, State.PROCESSING):
        raise GuardRefused(
            f"an apply of plan {plan} was cut short",
            hint=f"`agents plan resume {plan}` finishes it, `agents plan unapply {plan}` takes it"
            " back",
        )
    if state.reverts >= MOST_REVERTS:
        raise GuardRefused(
            f"plan {plan} went back {state.reverts} times, which is the most",
            hint="say the task anew: `agents run`",
            details={"reverts": state.reverts},
        )


def _moves(state: PlanState, to: Phase) -> Sequence[Moved]:
    """Return the way that the transition table allows."""
    is_applying = state.phase == Phase.APPLY
    if is_applying and (state.state == State.QUEUED or to == Phase.EXECUTE):
        before = (
            [] if state.state == State.QUEUED else [Moved(phase=Phase.APPLY, state=State.QUEUED)]
        )
        return [*before, Moved(phase=Phase.EXECUTE, state=State.COMPLETE), _QUEUED[to]]
    return [_QUEUED[to]]


async def findings(ledger: Ledger) -> str:
    """Return what the last attempt came to, for the next one: why it failed, and failed gates."""
    state = ledger.state
    parts = []
    if state.failure is not None:
        parts.append(f"It ended with: {state.failure.message}")
    if state.validation is not None and not state.validation.passed:
        rows = await ledger.value(state.validation.results)
        against = [row for row in rows if not row.get("passed") and row.get("required", True)]
        parts += [_of_row(row) for row in against]
    return "\n\n".join(parts)[:FINDINGS_CHARS]


def _of_row(row: Mapping[str, Any]) -> str:
    found = [shown_finding(each) for each in row.get("findings", ())]
    if found or row.get("problem"):
        return "\n".join([f"The gate {row['name']} fails.", *found, row.get("problem", "")])
    output = str(row.get("output", ""))[-OUTPUT_CHARS:]
    return f"$ {row['command']}\n(ended with {row.get('exit_code')})\n{output}"


__all__ = ["FINDINGS_CHARS", "findings", "freshened", "may_by_itself", "revert"]
