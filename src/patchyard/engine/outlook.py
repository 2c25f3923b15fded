"""What a resume would do, read from the journal alone. Nothing is written, nobody is asked."""

from collections.abc import Sequence
from dataclasses import dataclass

from patchyard.contracts.actor import Turn
from patchyard.domain.checkpoint import REPEATS
from patchyard.domain.events import ToolCallRequested
from patchyard.domain.mcp import may_repeat
from patchyard.domain.meanings import restored
from patchyard.domain.plan import Phase, State
from patchyard.domain.state import PlanState
from patchyard.domain.steering import Approved, shown_text
from patchyard.domain.transcript import transcript
from patchyard.engine import control
from patchyard.engine.approving import rejection, why_asked
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import has_steps
from patchyard.engine.recovery import CONFINED, reaches_out

OVER = frozenset({State.COMPLETE, State.APPLIED})


@dataclass(frozen=True, kw_only=True)
class OpenCall:
    """A call without a result, and what becomes of it."""

    call_id: str
    name: str
    kind: str
    would: str


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a resume would do, in order."""

    steps: tuple[str, ...]
    open_calls: tuple[OpenCall, ...]


async def outlook(equipment: Equipment, ledger: Ledger) -> Outlook:
    """Say what `agents plan resume` would do with this plan now."""
    state = ledger.state
    calls = tuple(_open_call(state, call) for call in state.open_calls.values())
    owner = await equipment.claims.holder(ledger.plan_id)
    if owner is not None:
        said = f"nothing: {owner.name} works on it"
        return Outlook(steps=(said,), open_calls=calls)
    steps = [
        *await _told(equipment, state),
        *(f"{call.name} ({call.call_id}): {call.would}" for call in calls),
        *await _way(ledger),
    ]
    return Outlook(steps=tuple(steps or ["nothing: its work is done"]), open_calls=calls)


def _open_call(state: PlanState, call: ToolCallRequested) -> OpenCall:
    return OpenCall(
        call_id=call.call_id,
        name=call.name,
        kind=str(call.kind or "the engine"),
        would=_fate(state, call),
    )


def _fate(state: PlanState, call: ToolCallRequested) -> str:
    asked = state.inquiries.open.get(call.call_id)
    if asked is not None:
        return f"the {asked.role} goes on in plan {asked.colleague_id}"
    if call.kind is None:
        return "answered by the engine"
    lost = "settled as OUTCOME_UNKNOWN and told to the actor"
    is_repeatable = state.repeats.get(call.call_id, 0) < REPEATS
    is_repeatable = is_repeatable and may_repeat(state.known.mcp_servers, call.name)
    walls = None if call.site is None else state.known.walls_at(call.site)
    is_confined = walls in CONFINED and not reaches_out(state.known)
    if is_repeatable and is_confined and call.checkpoint_id:
        lost = f"rolled back to checkpoint {call.checkpoint_id} and run again"
    if call.environment_id not in state.environments:
        return lost
    return f"attached to where its environment still runs, else {lost}"


async def _told(equipment: Equipment, state: PlanState) -> Sequence[str]:
    """What a resume does before it goes on: pauses, words, questions."""
    steps = []
    if state.steered.paused is not None:
        steps.append("end the pause")
    words = await control.read(equipment.store.journal, state.plan_id, after=state.steered.heard)
    unheard = [word.text for word in words if word.word == control.PROMPT]
    guidance = [*(each.text for each in state.steered.guidance), *unheard]
    steps += [f"tell the actor: {shown_text(text)}" for text in guidance]
    asked = state.steered.asked
    if asked is not None:
        steps.append(f"ask for the approval of {asked.name}: {asked.shown}")
    return steps


async def _way(ledger: Ledger) -> Sequence[str]:
    """The phases that are still to be gone."""
    state = ledger.state
    steps: list[str] = []
    is_planned = state.phase != Phase.STRATEGIZE or state.state == State.COMPLETE
    is_done = state.phase == Phase.APPLY or (
        state.phase == Phase.EXECUTE and state.state == State.COMPLETE
    )
    if not is_planned:
        steps += [f"plan anew, told: {shown_text(each)}" for each in state.steered.findings]
        steps += await _phase(ledger, Phase.STRATEGIZE)
    steps += _gate(state, Phase.EXECUTE)
    if not is_done:
        steps += await _phase(ledger, Phase.EXECUTE)
        gates = len(state.known.validate)
        by = "1 command" if gates == 1 else f"{gates} commands"
        if named := state.known.gates:
            by += f" and the gates {', '.join(gate.name for gate in named)}"
        steps.append(f"capture the changes and prove them with {by}")
    return [*steps, *_hand_over(state)]


async def _phase(ledger: Ledger, phase: Phase) -> Sequence[str]:
    state = ledger.state
    if state.phase != phase or not has_steps(state):
        return [f"begin {phase}"]
    steps = transcript(await ledger.events(), starts=state.attempt_starts)
    said = [f"go on with {phase}: replay {len(steps)} turns"]
    last = steps[-1] if steps else None
    if last is not None:
        turn = restored(Turn, await ledger.value(last.taken.body))
        left = [] if last.is_cut else turn.calls[len(last.calls) :]
        said += [f"send {wanted.name}, which the last turn asked for" for wanted in left]
        if turn.is_final and not turn.can_go_on and not state.steered.guidance:
            return said
    return [*said, f"ask the actor for turn {state.turn + 1}"]


def _gate(state: PlanState, phase: Phase) -> Sequence[str]:
    said_no = rejection(state, phase)
    if said_no:
        return [f"stop there: {said_no}"]
    why = why_asked(state, phase)
    is_open = state.steered.asked is not None
    is_said = any(isinstance(each, Approved) for each in state.steered.verdicts.values())
    return [f"ask whether to go on to {phase} ({why})"] if why and not (is_open or is_said) else []


def _hand_over(state: PlanState) -> Sequence[str]:
    if state.intended is not None:
        return [f"finish the apply to {state.intended.to} that was cut short"]
    to = state.known.apply_to
    if state.applied is not None or state.state == State.APPLIED:
        return []
    if to == "none":
        if (state.phase, state.state) != (Phase.APPLY, State.ERRORED):
            return []
        return ["stop there: the apply failed; `agents plan apply` tries again"]
    return [*_gate(state, Phase.APPLY), f"hand the change set over to {to}"]


__all__ = ["OpenCall", "Outlook", "outlook"]
