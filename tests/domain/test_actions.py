"""Actions: read strictly, filled in safely."""

from typing import Any

import pytest

from patchyard.clients.yaml import parse_yaml
from patchyard.domain.action import parse_action, use
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.faults import Fault
from patchyard.domain.invariant import Scope

BUMP = """
name: bump-dependency
arguments: {package: {required: true}, version: {default: latest}}
goal: "Raise {package} to {version} and mend what breaks"
steps:
  - run: "python tools/bump.py {package} {version}"
  - replace:
      {files: "**/requirements*.txt", pattern: "^{package}==.*$", with: "{package}=={version}"}
definition_of_done: ["tests pass"]
invariants: [{text: "public API unchanged", check: "python tools/api_diff.py"}]
setup: ["pip install -e .[test]"]
validate: ["pytest -q {package}"]
tools: {execute_command: {execution_environment: process}}
"""


def test_the_action_of_the_interface_page_is_read_and_filled_in() -> None:
    action = parse_action(parse_yaml(BUMP, name="f").value, source="f")
    filled = use(action, {"package": "a b"})
    assert filled.task == "Raise a b to latest and mend what breaks"
    assert filled.validate == ("pytest -q 'a b'",)
    assert filled.invariants[0].scope == Scope.ACTION
    assert filled.invariants[0].target == "bump-dependency"
    assert filled.arguments == {"package": "a b", "version": "latest"}
    assert action.tools == {"execute_command": ExecutionEnvironment.PROCESS}


def test_missing_and_unknown_arguments_are_named() -> None:
    action = parse_action(parse_yaml(BUMP, name="f").value)
    with pytest.raises(UsageError, match="needs package") as missing:
        use(action, {})
    assert "--arg package=..." in missing.value.hint
    with pytest.raises(UnknownName, match="'package'"):
        use(action, {"packge": "x"})


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"gaol": "x"}, "gaol", "did you mean 'goal'"),
        ({"name": "a b"}, "name", "no name"),
        ({"name": 3}, "name", "must be text"),
        ({"goal": "{x}"}, "goal", "no argument"),
        ({"goal": "", "steps": []}, "", "needs a `goal`"),
        ({"steps": [{"rum": "x"}]}, "steps[0].rum", "did you mean 'run'"),
        ({"arguments": {"file": {}}}, "arguments.file", "cannot name"),
        ({"arguments": {"x": {"required": "yes"}}}, "arguments.x.required", "true or false"),
        ({"arguments": []}, "arguments", "a mapping"),
        ({"setup": [3]}, "setup[0]", "text"),
        ({"setup": {}}, "setup", "list of texts"),
        ({"validate": ["{y}"]}, "validate[0]", "no argument"),
        ({"invariants": [{"check": "x"}]}, "invariants[0]", "'text' is missing"),
        ({"invariants": {}}, "invariants", "a list"),
        ({"tools": {"t": {"execution_environment": " "}}}, "tools.t", "unknown execution"),
        ({"tools": {"t": {"execution_environment": 3}}}, "tools.t", "name of an environment"),
        ({"tools": {"t": {"preference": "maybe"}}}, "tools.t.preference", "none of"),
        ({"tools": {"t": {"preference": "specific"}}}, "tools.t", "needs `target_resource`"),
        (
            {"tools": {"t": {"preference": "required", "target_resource": "box"}}},
            "tools.t.target_resource",
            "with `preference: specific` alone",
        ),
        (
            {
                "tools": {
                    "t": {
                        "preference": "specific",
                        "target_resource": "box",
                        "execution_environment": "host",
                    }
                }
            },
            "tools.t.execution_environment",
            "names where in `target_resource`",
        ),
        ({"tools": []}, "tools", "mapping"),
    ],
)
def test_a_mistake_is_named_with_its_place(change: dict[str, Any], place: str, words: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_action({"name": "a", "goal": "do it", **change})
    assert caught.value.message.startswith(place)
    assert words in caught.value.message
