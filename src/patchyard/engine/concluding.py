"""What is asked for and what was chosen, as a tree of decisions: what strategize leaves (B9)."""

from patchyard.contracts.actor import Turn
from patchyard.contracts.clock import Clock
from patchyard.domain.analysis import Complexity, TaskAnalysis, TaskKind
from patchyard.domain.assessing import (
    Assessment,
    TaskAssessed,
    consequences,
    limits_for,
    role_for,
)
from patchyard.domain.decision import Decision, DecisionKind, Proposal
from patchyard.domain.errors import WorkFailed
from patchyard.domain.events import DecisionRecorded, Moved, StrategyRecorded
from patchyard.domain.plan import Phase, State
from patchyard.domain.state import PlanState
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
    assessed = assess(ledger.state, turn)
    if turn.assessment is not None:
        proposals = (*proposals, _assessed(ledger.state, assessed))
    decisions = [_placed(each, clock.new_id(), root_id) for each in proposals]
    await ledger.record(  # in one step: a killed engine comes here again
        *(DecisionRecorded(decision=decision) for decision in decisions),
        StrategyRecorded(summary=summary[:8000], decision_root_id=root_id),
        *([assessed] if assessed is not None else []),
        Moved(phase=Phase.STRATEGIZE, state=State.COMPLETE),
    )


def unable(turn: Turn) -> WorkFailed:
    """Return the error for an actor that could not do it."""
    again = "`agents plan resume` asks it on; `agents run --model M` begins anew with another model"
    details = {"text": turn.text[:2000]}
    return WorkFailed(turn.failure, hint=again if turn.can_go_on else "", details=details)


def assess(state: PlanState, turn: Turn) -> TaskAssessed | None:
    """Return what follows from what a strategy says of the task; None where no model made it.

    One that says nothing gives the plan its usual limits, where an earlier one had others.
    """
    spec = state.known
    if spec.agent != "model":
        return None
    said = turn.assessment or Assessment()
    limits = limits_for(
        said.complexity,
        state.limits,
        adjustable=spec.adjustable,
        spent=state.spent,
        most=spec.charter.limits,
    )
    return TaskAssessed(
        kind=said.kind,
        complexity=said.complexity,
        role="" if spec.is_role_given else role_for(said.kind, spec.role),
        limits=limits if limits != state.limits else None,
    )


def _assessed(state: PlanState, assessed: TaskAssessed | None) -> Proposal:
    """Return an assessment as the decision that `plan explain` shows."""
    found = state.analysed.analysis if state.analysed is not None else TaskAnalysis()
    by_words = f"{found.kind}, {found.complexity}: by the words of the task"
    made = assessed or TaskAssessed()
    return Proposal(
        kind=DecisionKind.STRATEGY_CHOICE,
        question="what sort of task is it, and how large?",
        choice=f"{made.kind or TaskKind.UNKNOWN}, {made.complexity or Complexity.UNKNOWN}",
        alternatives=(by_words,),
        rationale="; ".join(consequences(made)),
    )


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


__all__ = ["assess", "conclude", "root_decision", "unable"]
