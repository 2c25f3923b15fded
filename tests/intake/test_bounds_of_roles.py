"""What a role's own policy says of limits and gates, beside settings, actions and repositories."""

import os
from pathlib import Path
from typing import Any

import pytest

from intake.taking_in import held, taken
from patchyard.configuration import user_file
from patchyard.domain.action import parse_action
from patchyard.domain.errors import UsageError
from patchyard.domain.gate_settings import gates_of
from patchyard.domain.project import Project


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def own_role(name: str, policy: str) -> Path:
    folder = user_file(os.environ).parent / "roles"
    written(folder / f"{name}.md", "Be brief.\n")
    return written(folder / f"{name}.yaml", policy)


LIMITS = "limits: {budget_usd: 1, max_steps: 20, max_tokens: 3000000, timeout: 10m, rounds: 1}\n"


def test_a_plan_gets_the_smaller_of_what_settings_and_its_role_say(top: Path) -> None:
    own_role("thrifty", LIMITS)
    file = written(user_file(os.environ), "limits: {max_steps: 9, timeout: 1h}\n")
    found = taken(top, role="thrifty", usd=0.5)
    limits = found.spec.limits
    assert (limits.usd, limits.steps, limits.seconds, limits.tokens) == (0.5, 9, 600.0, 3_000_000)
    assert (limits.calls, found.spec.rounds) == (None, 1)
    assert f"the role thrifty lowers limits.timeout to 10m (1h: {file})" in found.notes
    assert taken(top).spec.limits.seconds == 3600.0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"usd": 2.5}, "--budget-usd 2.5 is more than the role thrifty may use: 1"),
        ({"seconds": 900.0}, "--timeout 15m is more than the role thrifty may use: 10m"),
        ({"tokens": 4_000_000}, "--max-tokens 4000000 is more than the role thrifty may use: 30"),
        ({"rounds": 2}, "--rounds 2 is more than the role thrifty may use: 1"),
    ],
)
def test_an_option_above_a_roles_limit_is_refused(
    top: Path, asked: dict[str, Any], said: str
) -> None:
    path = own_role("thrifty", LIMITS)
    with pytest.raises(UsageError) as caught:
        taken(top, role="thrifty", **asked)
    assert caught.value.message.startswith(said)
    assert str(path) in caught.value.hint


def test_a_roles_gates_count_where_no_nearer_place_names_them(top: Path) -> None:
    own_role("strict", "gates: {lint: ruff, types: mypy, secrets: secrets, licences: licences}\n")
    written(user_file(os.environ), "gates: {secrets: false}\n")
    action = parse_action({"name": "a", "goal": "g", "gates": {"lint": "eslint"}})
    project = held(Project(name="p", repository=str(top), gates=gates_of({"types": False}, ())))
    spec = taken(top, project, action=action, role="strict").spec
    assert {gate.name for gate in spec.gates} == {"lint", "licences"}
    assert "eslint" in next(gate.command for gate in spec.gates if gate.name == "lint")
    assert set(spec.charter.gates) == {"licences"}
    assert taken(top, role="strict", validate=("",)).spec.gates == ()
    assert taken(top).spec.gates == ()


def test_a_repository_switches_no_gate_of_a_role_off(top: Path) -> None:
    own_role("strict", "gates: {lint: ruff}\n")
    written(top / ".patchyard/config.yaml", "gates: {lint: false, types: mypy}\n")
    spec = taken(top, role="strict").spec
    assert {gate.name for gate in spec.gates} == {"lint", "types"}


def test_tools_of_servers_that_are_not_there_are_said(top: Path) -> None:
    own_role("linked", "tools: [read_file, mcp__fs, mcp__nix, mcp__hub__ask]\n")
    written(user_file(os.environ), "mcp_servers: {fs: {command: fs}}\n")
    first, second = taken(top, role="linked").warnings
    assert first == (
        "the role linked may use mcp__nix, and no MCP server is called nix: there is fs"
    )
    assert "called hub" in second
    assert taken(top).warnings == ()


def test_a_role_of_a_team_keeps_its_own_gates(top: Path) -> None:
    own_role("tester", "output: tests\ngates: {tests: pytest, lint: ruff}\n")
    written(user_file(os.environ), "roles: [developer, tester]\ngates: {lint: false}\n")
    spec = taken(top).spec  # its own gate notices a missing change, so that no command is missing
    assert (spec.gates, set(spec.team[0].gates)) == ((), {"tests"})
