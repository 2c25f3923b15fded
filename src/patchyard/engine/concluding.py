"""What is asked for and what was chosen, as a tree of decisions: what strategize leaves (B9)."""

from patchyard.contracts.actor import Turn
from patchyard.contracts.clock import Clock
from patchyard.domain.decision import Decision, DecisionKind, Proposal
from patchyard.domain.errors import WorkFailed
from patchyard.domain.events import DecisionRecorded, Moved, StrategyRecorded
from patchyard.domain.plan import Phase, State
from patchyard.engine import invariants
from patchyard.engine.ledger import Ledger


async def root_decision(clock: Clock, ledger: Ledger) -> str:
    """Return the root decision of this attempt; recorded once, however often it is begun."""
    state = ledger.state
    for version, _, event in await ledger.events() if state.decisions else ():
        if version <= state.attempt_starts or not isinstance(event, DecisionRecorded):
            continue
        if event.decision.parent_id is None:
            return event.decision.decision_id
    root = Decision(
        decision_id=clock.new_id(),
        parent_id=None,
        kind=DecisionKind.PROMPT_DEFINITION,
        question="what is asked for?",
        choice=state.known.task[:4000],
        rationale=f"action {state.known.action}" if state.known.action else "the task as given",
    )
    bound = invariants.enforced(state.known.invariants, clock, root.decision_id)
    await ledger.record(DecisionRecorded(decision=root), *bound)
    return root.decision_id


async def conclude(clock: Clock, ledger: Ledger, turn: Turn, root_id: str) -> None:
    """Record what an actor's last turn of strategize came to. Raises WorkFailed."""
    if turn.failure:
        raise unable(turn)
    summary = turn.summary or turn.text
    proposals = turn.proposals or (_default_choice(summary),)
    decisions = [_placed(each, clock.new_id(), root_id) for each in proposals]
    await ledger.record(  # in one step: a killed engine comes here again
        *(DecisionRecorded(decision=decision) for decision in decisions),
        StrategyRecorded(summary=summary[:8000], decision_root_id=root_id),
        Moved(phase=Phase.STRATEGIZE, state=State.COMPLETE),
    )


def unable(turn: Turn) -> WorkFailed:
    """Return the error for an actor that could not do it."""
    again = "`agents plan resume` asks it on; `agents run --model M` begins anew with another model"
    details = {"text": turn.text[:2000]}
    return WorkFailed(turn.failure, hint=again if turn.can_go_on else "", details=details)


def _default_choice(summary: str) -> Proposal:
    return Proposal(
        kind=DecisionKind.STRATEGY_CHOICE, question="how is it done?", choice=summary[:4000]
    )


def _placed(proposal: Proposal, decision_id: str, parent_id: str) -> Decision:
    return Decision(
        decision_id=decision_id,
        parent_id=parent_id,
        kind=proposal.kind,
        question=proposal.question,
        choice=proposal.choice,
        alternatives=proposal.alternatives,
        confidence=proposal.confidence,
        rationale=proposal.rationale,
    )


__all__ = ["conclude", "root_decision", "unable"]
