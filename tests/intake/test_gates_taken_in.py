"""Which gates a plan has: of all places together, switched off, beside what is detected."""

import os
from pathlib import Path
from typing import Any

from intake.taking_in import held, taken
from patchyard.configuration import user_file
from patchyard.domain.action import parse_action
from patchyard.domain.gate_settings import gates_of
from patchyard.domain.project import Project
from patchyard.intake import UNPROVEN


def written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def names(top: Path, **asked: Any) -> list[str]:
    return [gate.name for gate in taken(top, **asked).spec.gates]


def test_gates_of_all_places_count_and_the_nearest_decides_on_a_name(top: Path) -> None:
    written(top / ".patchyard/config.yaml", "gates: {lint: ruff, types: mypy, secrets: secrets}\n")
    written(user_file(os.environ), "gates: {secrets: false, licences: licences}\n")
    action = parse_action({"name": "a", "goal": "g", "gates": {"lint": "eslint", "types": False}})
    project = held(
        Project(name="p", repository=str(top), gates=gates_of({"tests": "npm-test"}, ()))
    )
    assert names(top) == ["lint", "types", "licences"]
    found = taken(top, project, action=action).spec.gates
    assert [gate.name for gate in found] == ["lint", "licences", "tests"]
    assert "eslint" in found[0].command


def test_an_empty_validate_switches_all_proof_off(top: Path) -> None:
    written(top / ".patchyard/config.yaml", "gates: {lint: ruff}\n")
    assert names(top, validate=("",)) == []
    assert names(top, validate=("make",)) == ["lint"]


def test_gates_that_run_something_stand_for_detected_commands_and_scans_do_not(top: Path) -> None:
    written(top / "Cargo.toml", "")
    written(user_file(os.environ), "gates: {tests: cargo-test}\n")
    assert taken(top).spec.validate == ()
    written(user_file(os.environ), "gates: {secrets: secrets}\n")
    assert taken(top).spec.validate == ("cargo test",)
    (top / "Cargo.toml").unlink()
    assert UNPROVEN in taken(top).notes
