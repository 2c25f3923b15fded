"""Reading declared steps: each mistake is named with its place."""

from typing import Any

import pytest

from patchyard.domain.faults import Fault
from patchyard.domain.recipe import ForEach, Replace, Run, When, parse_steps


def test_reads_each_kind_of_step() -> None:
    steps = parse_steps(
        [
            {"run": "make {x}", "name": "build", "on_error": "continue"},
            {"for_each": {"files": "*.py", "steps": [{"replace": {"pattern": "a", "with": "b"}}]}},
            {"when": {"run": "true", "exit_code": 1, "timeout_s": 5, "else": [{"fail": "{x}"}]}},
        ],
        ("x",),
    )
    assert isinstance(steps[0].does, Run)
    assert steps[0].goes_on
    assert steps[0].name == "build"
    assert isinstance(steps[1].does, ForEach)
    inner = steps[1].does.steps[0].does
    assert isinstance(inner, Replace)
    assert inner.files == "{file}"
    assert isinstance(steps[2].does, When)
    assert steps[2].does.exit_codes == (1,)


@pytest.mark.parametrize(
    ("steps", "place", "words"),
    [
        ("run", "steps", "list of steps"),
        ([{"rn": "x"}], "steps[0].rn", "did you mean 'run'"),
        ([{"run": "a", "fail": "b"}], "steps[0]", "exactly one thing"),
        ([{"name": "a"}], "steps[0]", "exactly one thing"),
        ([{"run": "a", "on_error": "stop"}], "steps[0].on_error", "neither"),
        ([{"run": "a {y}"}], "steps[0].run", "no argument"),
        ([{"run": "a {file}"}], "steps[0].run", "no argument"),
        ([{"run": {"command": "a", "timeout_s": True}}], "steps[0].run.timeout_s", "above 0"),
        ([{"run": {"cwd": "a"}}], "steps[0].run", "'command' is missing"),
        ([{"replace": {"files": "f", "pattern": "(", "with": ""}}], "pattern", "expression"),
        ([{"replace": {"pattern": "a", "with": ""}}], "steps[0].replace", "'files' is missing"),
        ([{"replace": {"files": "f", "pattern": "a", "with": 3}}], "with", "not a number"),
        ([{"replace": {"files": "f", "pattern": "a", "with": "", "required": 1}}], "req", "true"),
        ([{"patch": "no diff"}], "steps[0].patch", "unified diff"),
        ([{"when": {"run": "a", "exit_code": []}}], "exit_code", "exit code"),
        ([{"when": {"run": "a", "exit_code": True}}], "exit_code", "exit code"),
        ([{"fail": None}], "steps[0].fail", "not nothing"),
        ([{"for_each": {"files": "f", "steps": {}}}], "for_each.steps", "not a mapping"),
        ([3], "steps[0]", "must be a mapping"),
    ],
)
def test_a_mistake_is_named_with_its_place(steps: Any, place: str, words: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_steps(steps, ("x",))
    assert place in caught.value.message
    assert words in caught.value.message


def test_steps_within_steps_are_bounded() -> None:
    nested: dict[str, Any] = {"run": "a"}
    for _ in range(20):
        nested = {"when": {"run": "a", "then": [nested]}}
    with pytest.raises(Fault, match="deep"):
        parse_steps([nested])
    with pytest.raises(Fault, match="more than"):
        parse_steps([{"for_each": {"files": "f", "steps": [{"run": "a"}] * 10_001}}])
