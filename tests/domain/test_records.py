"""Changing a field of a frozen record."""

import dataclasses

import pytest

from patchyard.domain.records import replace
from patchyard.domain.state import PlanState


def test_a_changed_record_is_what_dataclasses_make_of_it() -> None:
    before = PlanState(plan_id="a", turn=1)
    after = replace(before, turn=2, reason="x")
    assert after == dataclasses.replace(before, turn=2, reason="x")
    assert before.turn == 1


def test_a_name_that_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="PlanState has no turns"):
        replace(PlanState(plan_id="a"), turns=2)
