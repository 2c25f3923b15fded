"""What the events of roles come to. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from patchyard.domain.budget import Spent
from patchyard.domain.colleagues import ColleagueAsked, ColleagueHeard, Colleagues
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


def _colleague_heard(state: PlanState, event: ColleagueHeard, _version: int) -> PlanState:
    heard = (*state.colleagues.heard, event)
    return replace(state, spent=_with(state.spent, event), colleagues=Colleagues(heard=heard))


def _role_asked(state: PlanState, event: RoleAsked, _version: int) -> PlanState:
    asked = {**state.inquiries.asked, event.call_id: event}
    return replace(state, inquiries=replace(state.inquiries, asked=asked))


def _role_answered(state: PlanState, event: RoleAnswered, _version: int) -> PlanState:
    answered = {**state.inquiries.answered, event.call_id: event}
    inquiries = replace(state.inquiries, answered=answered)
    return replace(state, spent=_with(state.spent, event), inquiries=inquiries)


def _answer(state: PlanState, event: AnswerGiven, _version: int) -> PlanState:
    return replace(state, answer=event)


def _with(spent: Spent, event: ColleagueHeard | RoleAnswered) -> Spent:
    """Return what is spent with that of another role's plan."""
    return replace(
        spent,
        usd=spent.usd + event.usd,
        is_priced=spent.is_priced and event.is_priced,
        input_tokens=spent.input_tokens + event.input_tokens,
        output_tokens=spent.output_tokens + event.output_tokens,
        steps=spent.steps + event.steps,
    )


HANDLERS: Mapping[type, Callable[[PlanState, Any, int], PlanState]] = {
    AnswerGiven: _answer,
    ColleagueAsked: _colleague_asked,
    ColleagueHeard: _colleague_heard,
    CoverageMeasured: _covered,
    DesignRecorded: _recorded,
    RemovalProven: _removed,
    Reviewed: _reviewed,
    RoleAnswered: _role_answered,
    RoleAsked: _role_asked,
}

__all__ = ["HANDLERS"]
