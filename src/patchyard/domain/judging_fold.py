"""What the events of judging roles come to. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from patchyard.domain.design_record import DesignRecorded
from patchyard.domain.records import replace
from patchyard.domain.removal import RemovalProven
from patchyard.domain.review import Reviewed
from patchyard.domain.state import PlanState


def _removed(state: PlanState, event: RemovalProven, _version: int) -> PlanState:
    return replace(state, removal=event)


def _reviewed(state: PlanState, event: Reviewed, _version: int) -> PlanState:
    return replace(state, review=event)


def _recorded(state: PlanState, event: DesignRecorded, _version: int) -> PlanState:
    return replace(state, record=event)


HANDLERS: Mapping[type, Callable[[PlanState, Any, int], PlanState]] = {
    DesignRecorded: _recorded,
    RemovalProven: _removed,
    Reviewed: _reviewed,
}

__all__ = ["HANDLERS"]
