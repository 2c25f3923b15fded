"""What the events of roles come to. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from patchyard.domain.colleagues import ColleagueAsked, ColleagueCounted, ColleagueHeard
from patchyard.domain.design_record import DesignRecorded
from patchyard.domain.inquiries import AnswerGiven, RoleAnswered, RoleAsked
from patchyard.domain.records import replace
from patchyard.domain.removal import RemovalProven
from patchyard.domain.review import Reviewed
from patchyard.domain.review_coverage import CoverageMeasured
from patchyard.domain.state import PlanState


def _removed(state: PlanState, event: RemovalProven, _version: int) -> PlanState:
    return replace(state, removal=event)


def _reviewed(state: PlanState, event: Reviewed, _version: int) -> PlanState:
    return replace(state, review=event)


def _covered(state: PlanState, event: CoverageMeasured, _version: int) -> PlanState:
    return replace(state, coverage=event)


def _recorded(state: PlanState, event: DesignRecorded, _version: int) -> PlanState:
    return replace(state, record=event)


def _colleague_asked(state: PlanState, event: ColleagueAsked, _version: int) -> PlanState:
    return replace(state, colleagues=replace(state.colleagues, asked=event))


def _colleague_counted(state: PlanState, event: ColleagueCounted, _version: int) -> PlanState:
    return _counted(state, event)


def _colleague_heard(state: PlanState, event: ColleagueHeard, _version: int) -> PlanState:
    state = _counted(state, event)
    heard = (*state.colleagues.heard, event)
    return replace(state, colleagues=replace(state.colleagues, asked=None, heard=heard))


def _role_asked(state: PlanState, event: RoleAsked, _version: int) -> PlanState:
    asked = {**state.inquiries.asked, event.call_id: event}
    return replace(state, inquiries=replace(state.inquiries, asked=asked))


def _role_answered(state: PlanState, event: RoleAnswered, _version: int) -> PlanState:
    answered = {**state.inquiries.answered, event.call_id: event}
    inquiries = replace(state.inquiries, answered=answered)
    return replace(_counted(state, event), inquiries=inquiries)


def _answer(state: PlanState, event: AnswerGiven, _version: int) -> PlanState:
    return replace(state, answer=event)


def _counted(
    state: PlanState, event: ColleagueCounted | ColleagueHeard | RoleAnswered
) -> PlanState:
    """Add what another role's plan used since it was counted last."""
    before = state.colleagues.counted.get(event.colleague_id)
    now = ColleagueCounted(
        colleague_id=event.colleague_id,
        usd=event.usd,
        is_priced=event.is_priced,
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        steps=event.steps,
        calls=event.calls,
    )
    known = before or ColleagueCounted(colleague_id=event.colleague_id)
    spent = replace(
        state.spent,
        usd=state.spent.usd + now.usd - known.usd,
        is_priced=state.spent.is_priced and now.is_priced,
        input_tokens=state.spent.input_tokens + now.input_tokens - known.input_tokens,
        output_tokens=state.spent.output_tokens + now.output_tokens - known.output_tokens,
        steps=state.spent.steps + now.steps - known.steps,
    )
    counted = {**state.colleagues.counted, event.colleague_id: now}
    return replace(state, spent=spent, colleagues=replace(state.colleagues, counted=counted))


HANDLERS: Mapping[type, Callable[[PlanState, Any, int], PlanState]] = {
    AnswerGiven: _answer,
    ColleagueAsked: _colleague_asked,
    ColleagueCounted: _colleague_counted,
    ColleagueHeard: _colleague_heard,
    CoverageMeasured: _covered,
    DesignRecorded: _recorded,
    RemovalProven: _removed,
    Reviewed: _reviewed,
    RoleAnswered: _role_answered,
    RoleAsked: _role_asked,
}

__all__ = ["HANDLERS"]
