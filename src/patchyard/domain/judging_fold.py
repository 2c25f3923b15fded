"""What the events of roles come to. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from patchyard.domain.colleagues import ColleagueAsked, ColleagueHeard, Colleagues
from patchyard.domain.design_record import DesignRecorded
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
    spent = replace(
        state.spent,
        usd=state.spent.usd + event.usd,
        is_priced=state.spent.is_priced and event.is_priced,
        input_tokens=state.spent.input_tokens + event.input_tokens,
        output_tokens=state.spent.output_tokens + event.output_tokens,
        steps=state.spent.steps + event.steps,
    )
    heard = (*state.colleagues.heard, event)
    return replace(state, spent=spent, colleagues=Colleagues(heard=heard))


HANDLERS: Mapping[type, Callable[[PlanState, Any, int], PlanState]] = {
    ColleagueAsked: _colleague_asked,
    ColleagueHeard: _colleague_heard,
    CoverageMeasured: _covered,
    DesignRecorded: _recorded,
    RemovalProven: _removed,
    Reviewed: _reviewed,
}

__all__ = ["HANDLERS"]
