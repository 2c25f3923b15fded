"""Records to JSON and back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.codec import Meanings, from_json, in_full, to_json
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment
from patchyard.domain.errors import JournalBroken
from patchyard.domain.events import (
    TYPES,
    Body,
    EnvironmentStarted,
    PlanCreated,
    ToolCallRequested,
    ToolCallSettled,
)
from patchyard.domain.invariant import Invariant, Scope
from patchyard.domain.plan import PlanSpec

SPEC = PlanSpec(
    task="naïve 🚀",
    repository="/srv/a b",
    environment=ExecutionEnvironment.PROCESS,
    tool_environments={"grep_search": ExecutionEnvironment.HOST},
    invariants=(Invariant(invariant_id="I", text="stays", scope=Scope.PROJECT, check="true"),),
    steps=({"run": "x"},),
    validate=("pytest -q",),
)


def through_json(value: Any) -> Any:
    return from_json(type(value), json.loads(json.dumps(to_json(value))))


@pytest.mark.parametrize(
    "event",
    [
        PlanCreated(spec=SPEC),
        EnvironmentStarted(
            handle=EnvironmentHandle(
                environment_id="E",
                kind=ExecutionEnvironment.PROCESS,
                workspace_path="/w",
                details={"pid": 3, "deep": {"x": [1, None]}},
            ),
            purpose="execute",
        ),
        ToolCallRequested(
            call_id="C",
            turn=1,
            ref="r",
            name="n",
            arguments=Body(value={"a": [1]}),
            environment_id="",
        ),
        ToolCallSettled(call_id="C", success=True, message="", paths=("a\udcff",), started=1.5),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_record_comes_back_as_it_was(event: Any) -> None:
    assert through_json(event) == event


def test_what_has_its_default_is_left_out() -> None:
    assert to_json(Body()) == {}


def complaint(record: type[Any], body: dict[str, Any]) -> str:
    try:
        from_json(record, body)
    except JournalBroken as error:
        return error.message
    return "none: unknown keys are passed over"


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()))
def test_whatever_a_journal_holds_ends_in_a_record_or_in_a_clear_error(
    body: dict[str, Any],
) -> None:
    said = [complaint(record, body) for record in TYPES.values()]
    known = ("none", ".", "lacks", "not an object")
    assert all(any(part in word for part in known) for word in said)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"text": 3}, "Noted.text"),
        ({}, "lacks a field"),
        ([], "not an object"),
        ({"text": None}, "Noted.text"),
    ],
)
def test_what_does_not_fit_is_named(body: Any, said: str) -> None:
    with pytest.raises(JournalBroken, match=said):
        from_json(TYPES["Noted"], body)


def test_what_has_no_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="no JSON form"):
        to_json(object())


@dataclass(frozen=True, kw_only=True)
class Inner:
    """A record within another."""

    most: int = 400


@dataclass(frozen=True, kw_only=True)
class Outer:
    """A record whose defaults changed since it was kept."""

    name: str = "new"
    inner: Inner = Inner(most=7)
    kept: Mapping[str, int] = field(default_factory=dict)
    later: int = 3


THEN = Meanings({"Outer": {"name": "old", "inner": {}, "kept": {}}, "Inner": {"most": 200}})


def test_what_is_left_out_means_what_it_meant_and_not_the_default_of_today() -> None:
    read = from_json(Outer, {"later": 1}, THEN)
    assert read == Outer(name="old", inner=Inner(most=200), later=1)
    assert from_json(Outer, {"later": 1}) == Outer(later=1)


def test_what_was_left_out_without_a_known_meaning_is_not_guessed() -> None:
    with pytest.raises(JournalBroken, match="Outer lacks a field: later"):
        from_json(Outer, {"name": "mine"}, THEN)


def test_each_record_has_a_mapping_of_its_own() -> None:
    one, other = from_json(Outer, {"later": 1}, THEN), from_json(Outer, {"later": 1}, THEN)
    assert one.kept is not other.kept


def test_what_is_kept_is_written_with_its_defaults() -> None:
    assert in_full(Outer()) == {"name": "new", "inner": {"most": 7}, "kept": {}, "later": 3}
    assert to_json(Outer()) == {}
