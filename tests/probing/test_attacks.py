"""The attacks as data: complete, told apart, and fit for any Python that a place may have."""

import ast
import sys
from pathlib import Path

import pytest

import patchyard.probing
from patchyard.probing.attack import Attack, Group, Where
from patchyard.probing.attacks.resources import BOUNDS
from patchyard.probing.battery import all_attacks
from patchyard.probing.known import KNOWN

SCRIPTS = Path(patchyard.probing.__file__).parent / "scripts"
ATTACKS = all_attacks(str)


def functions(name: str) -> set[str]:
    tree = ast.parse((SCRIPTS / f"{name}.py").read_text(), feature_version=(3, 8))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_there_are_many_and_each_group_has_some() -> None:
    assert len(ATTACKS) >= 120
    assert {attack.group for attack in ATTACKS} == set(Group)
    assert {attack.where for attack in ATTACKS} == set(Where)


def test_names_and_titles_tell_them_apart() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    assert len({(attack.group, attack.title) for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: str(attack.name))
def test_each_has_a_script_or_calls_and_a_control(attack: Attack) -> None:
    if attack.where is Where.ENGINE:
        assert attack.options["forgery"]
        return
    assert attack.script or attack.calls
    control = attack.control_script or attack.script
    assert control
    assert {control, attack.script or control} <= functions(attack.group)


def test_what_is_listed_as_known_exists_and_no_walls_have_a_list() -> None:
    names = {attack.name for attack in ATTACKS}
    assert set(map(str, KNOWN)) == {"host", "mock", "ssh"}
    for listed in KNOWN.values():
        assert set(listed) <= names
        assert all(known.why for known in listed.values())


@pytest.mark.parametrize("script", sorted(path.name for path in SCRIPTS.glob("*.py")))
def test_scripts_need_the_standard_library_of_python_3_8_alone(script: str) -> None:
    tree = ast.parse((SCRIPTS / script).read_text(), feature_version=(3, 8))
    nodes = list(ast.walk(tree))
    imports = [node for node in nodes if isinstance(node, ast.Import)]
    imported = {alias.name for node in imports for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert imported <= {*sys.stdlib_module_names, "kit"}


def test_the_bounds_that_are_tried_are_well_below_what_a_control_takes() -> None:
    options = {attack.name: attack.options for attack in ATTACKS}
    assert BOUNDS.processes is not None
    assert BOUNDS.processes < options["fork-bomb"]["count"] <= 200
    assert BOUNDS.memory_bytes is not None
    assert BOUNDS.memory_bytes < options["memory"]["bytes"] <= 2 * BOUNDS.memory_bytes
