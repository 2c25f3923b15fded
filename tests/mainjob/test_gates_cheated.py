"""Actors that turn a gate instead of doing the work, and gates that say nothing worth the name."""

import json
from typing import Any

import pytest

from mainjob.driver import Desk, shell, write
from mainjob.test_planted_defects import base, found, gates, run

pytestmark = [pytest.mark.service("bubblewrap")]

BASE = {
    ".patchyard/config.yaml": "gates: {tests: pytest, lint: ruff}\n",
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n[tool.ruff]\n',
    "calc.py": "def double(n: int) -> int:\n    return n * 2\n",
    "tests/test_calc.py": (
        "import calc\n\n\ndef test_five() -> None:\n    assert calc.double(5) == 10\n\n\n"
        "def test_none() -> None:\n    assert calc.double(0) == 0\n"
    ),
}
WRONG = write("calc.py", "import json\n\n\ndef double(n: int) -> int:\n    return n + 5\n")
EDITED = BASE["tests/test_calc.py"].replace("double(0) == 0", "double(0) == 5")
FORGERY = """import sys
path = next(word for word in sys.argv if "junitxml" in word).partition("=")[2]
with open(path, "w") as report:
    report.write("<testsuite><testcase classname='tests.test_calc' name='test_five'/></testsuite>")
"""
LOOSE = (
    '[project]\nname = "calc"\nversion = "1"\n[tool.pytest.ini_options]\npythonpath = ["."]\n'
    'addopts = "-k five"\n[tool.ruff]\nexclude = ["*"]\n'
)


def test_edited_tests_and_loosened_settings_have_no_effect_and_are_named(desk: Desk) -> None:
    base(desk, BASE)
    hook = "def pytest_collection_modifyitems(items):\n    items[:] = items[:1]  # nosec\n"

    said = run(
        desk,
        WRONG,
        write("tests/test_calc.py", EDITED),
        write("pyproject.toml", LOOSE),
        write("ruff.toml", 'exclude = ["*"]\n'),
        write("conftest.py", hook),
        write("pytest.py", FORGERY),
    )

    assert (said.code, said.data["state"]) == (1, "constrained"), said.message
    rows = gates(said)
    assert found(rows["tests"]) == {("tests/test_calc.py", 9, "only-as-changed")}
    assert found(rows["lint"]) == {("calc.py", 1, "F401")}
    assert said.data["held_from_base"] == ["pyproject.toml", "pytest.py", "ruff.toml"]
    assert set(said.data["touched_proof"]) == {
        *("conftest.py", "pyproject.toml", "pytest.py", "ruff.toml", "tests/test_calc.py")
    }
    assert said.data["silenced"] == ["conftest.py:1", "conftest.py:2"]
    screen = desk.agents("plan", "status", is_json=False).out.decode().splitlines()
    named = [n for n, line in enumerate(screen) if line.split()[:1] in (["touched"], ["held"])]
    verdict = next(n for n, line in enumerate(screen) if line.split()[:1] == ["gate"])
    assert len(named) == 2
    assert max(named) < verdict


def test_links_newer_settings_and_ignored_files_hide_nothing(desk: Desk) -> None:
    plain = {name: text for name, text in BASE.items() if name != "pyproject.toml"}
    path = "import sys\n\nsys.path.insert(0, '.')\n"
    base(desk, {**plain, "tests/conftest.py": path})
    fewer = "printf '[tool:pytest]\\naddopts=-k five\\n' > '[metadata]'"

    said = run(
        desk,
        WRONG,
        write("pytest.toml", '[pytest]\naddopts = ["-k", "five"]\n'),
        write("fake/__init__.py", ""),
        write("fake/__main__.py", FORGERY),
        shell(f"ln -s fake pytest; {fewer}; ln -s '[metadata]' setup.cfg"),
        write(".gitignore", "calc.py\n"),
        write(".ignore", "calc.py\n"),
    )

    rows = gates(said)
    assert found(rows["tests"]) == {("tests/test_calc.py", 9, "failed")}
    assert ("calc.py", 1, "F401") in found(rows["lint"])
    held = [".gitignore", ".ignore", "pytest", "pytest.toml", "setup.cfg"]
    assert said.data["held_from_base"] == held


SHIM = """#!/bin/sh
for word in "$@"; do case "$word" in --junitxml=*)
  echo "<testsuite><testcase classname='tests.test_calc' name='test_five'/></testsuite>" \\
    > "${word#*=}";; esac; done
"""


def test_a_link_in_the_place_of_installed_tools_leads_no_proof_to_other_programs(
    desk: Desk,
) -> None:
    base(desk, {**BASE, ".patchyard/config.yaml": "gates: {tests: pytest}\n"})

    said = run(
        desk,
        write("calc.py", "def double(n: int) -> int:\n    return n + 5\n"),
        write("tools/bin/python3", SHIM),
        shell("chmod +x tools/bin/python3; ln -s bin tools/.bin; ln -s tools .venv"),
        shell("ln -s tools node_modules"),
        options=("--validate", "python3 -m pytest -q"),
    )

    assert said.code == 1
    assert [row["passed"] for row in said.data["validation"]] == [False, False]
    rows = {row.get("name"): row for row in said.data["validation"]}
    assert found(rows["tests"]) == {("tests/test_calc.py", 9, "failed")}
    assert not {".venv", "node_modules"} & said.changed.keys()


def test_removed_tests_are_run_all_the_same_unless_the_user_allows_it(desk: Desk) -> None:
    base(desk, BASE)
    removal = shell("rm tests/test_calc.py && echo 'def test_x(): pass' > tests/test_new.py")

    said = run(desk, write("calc.py", "def double(n):\n    return n + 5\n"), removal)
    rows = gates(said)
    assert found(rows["tests"]) == {("tests/test_calc.py", 9, "only-as-changed")}
    assert "2 tests" in rows["tests"]["notes"][0]

    allowed = run(
        desk,
        write("calc.py", "def double(n):\n    return n + 5\n"),
        removal,
        options=("--allow-path", "tests/*"),
    )
    assert allowed.code == 0, allowed.message


SARIF = '{"runs": [{"results": [{"ruleId": "OLD", "message": {"text": "x"}}]}]}'
CLEAN = '{"runs": [{"results": []}]}'
ODD: dict[str, tuple[Any, str]] = {
    "absent": ({"command": "no-such-tool {report}", "parser": "sarif"}, "absent"),
    "advisory": (
        {"command": "no-such-tool {report}", "parser": "sarif", "required": False},
        "absent",
    ),
    "clean": ({"command": f"echo '{CLEAN}'", "parser": "sarif"}, "passed"),
    "crashed": ({"command": f"echo '{CLEAN}'; exit 3", "parser": "sarif"}, "broken"),
    "empty": ({"command": ": > {report}", "parser": "sarif"}, "broken"),
    "hung": ({"command": "sleep 60", "timeout": "1s"}, "failed"),
    "hung-report": ({"command": "sleep 60", "timeout": "1s", "parser": "sarif"}, "broken"),
    "link": ({"command": "ln -s /etc/passwd out", "report": "out", "parser": "text"}, "broken"),
    "missing": ({"command": "true {report}", "parser": "sarif"}, "broken"),
    "no-module": ({"command": "python3 -m no_such_module_"}, "absent"),
    "none-ran": ({"command": "echo; echo 'Ran 0 tests in 0.000s'"}, "broken"),
    "no-test": ({"command": "echo '<testsuite/>'", "parser": "junit"}, "broken"),
    "number": ({"command": "wc -l < size", "parser": "number", "threshold": 2}, "failed"),
    "old": ({"command": f"echo '{SARIF}'; exit 1", "parser": "sarif"}, "passed"),
    "sly": ({"command": f"echo '{CLEAN}'; exit 1", "parser": "sarif"}, "broken"),
    "stale": ({"command": "true", "report": "old.sarif", "parser": "sarif"}, "broken"),
    "tests": ({"command": "test $(cat tests/x) = 2", "tests": True}, "failed"),
}


def test_a_gate_that_says_nothing_fails_and_says_why(desk: Desk) -> None:
    config = json.dumps({"gates": {name: entry for name, (entry, _) in ODD.items()}})
    files = {".patchyard/config.yaml": config, "old.sarif": CLEAN, "size": "1\n"}
    base(desk, {**files, "tests/x": "1\n"})

    said = run(desk, shell("seq 9 > size; echo 2 > tests/x"))

    rows = gates(said)
    assert {name: row["status"] for name, row in rows.items()} == {
        name: status for name, (_, status) in ODD.items()
    }
    assert said.code == 1
    assert all(row["problem"] for row in rows.values() if row["status"] in {"absent", "broken"})
    assert rows["advisory"]["required"] is False
    assert [each["rule"] for each in rows["tests"]["findings"]] == ["only-as-changed"]
    assert "1 before, 9 after" in rows["number"]["findings"][0]["message"]
