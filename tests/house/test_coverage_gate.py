"""The gate on coverage (A20): 97 % at least, measured by one session, reported as XML."""

import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import run_tests
from services import REAL_ENVIRONMENT
from tree import ROOT

PROGRAM = """
def used(flag):
    if flag:
        return 1
    return 2


def unused():
    a = 1
    b = 2
    return a + b


used(True)
"""


def test_the_floor_is_that_of_the_sources() -> None:
    assert run_tests.floor(run_tests.FLOOR_FILE.read_text(encoding="utf-8")) >= 97.0


def test_the_session_of_the_sources_measures_all_suites() -> None:
    words = [sys.executable, "-m", "nox", "--list", "--sessions", "coverage_report"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "* coverage_report" in listed.stdout
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    assert '_run(session, PYTHON, "scripts/run_tests.py")' in text.partition("coverage_report")[2]


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_run_below_the_floor_fails_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_kept: bool
) -> None:
    text = PROGRAM
    if is_kept:  # all of it runs, by each branch
        text += "used(False)\nunused()\n"
    (tmp_path / "program.py").write_text(text)
    (tmp_path / "build").mkdir()
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    environment = {**REAL_ENVIRONMENT, "COVERAGE_FILE": str(tmp_path / "data")}
    words = [sys.executable, "-m", "coverage", "run", "--branch", "--parallel", "program.py"]
    subprocess.run(words, cwd=tmp_path, env=environment, check=True)

    assert run_tests._measure(environment, (), raise_floor=False) is is_kept

    rate = ET.parse(tmp_path / "build/coverage.xml").getroot().get("line-rate", "")  # noqa: S314 - ours
    assert (float(rate) >= 0.97) is is_kept


SUITES = {
    "tests/services.py": 'CURES = {}\nPROBES = {}\n\n\ndef absence(name):\n    return ""\n',
    "program.py": "\n\n".join(f"def by_{name}():\n    return 1\n" for name in ("p", "b", "r")),
    "tests/test_program.py": "import program\n\n\ndef test_p():\n    assert program.by_p() == 1\n",
    "features/a.feature": "Feature: a\n  Scenario: b\n    Then c\n",
    "features/steps/a.py": (
        'import program\nfrom behave import then\n\n\n@then("c")\ndef c(context):\n'
        "    assert program.by_b() == 1\n"
    ),
    "robot/a.robot": (
        "*** Settings ***\nLibrary    ${CURDIR}/../program.py\n\n*** Test Cases ***\nA\n    By R\n"
    ),
}


def _coverage_report(folder: Path, changed: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """What `nox -s coverage_report` says in a small repository with this one's scripts."""
    ours = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[tool.coverage.run]")[2]
    settings = ours.partition("[tool.importlinter]")[0].replace('"patchyard"', '"program"')
    measured = {"pyproject.toml": f"[tool.coverage.run]{settings}"}
    for name, text in {**SUITES, **measured, **changed}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "noxfile.py", folder)
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / ".venv/bin/python").chmod(0o755)
    words = [sys.executable, "-m", "nox", "--session", "coverage_report"]
    quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    known = {**REAL_ENVIRONMENT, **quick, "SERVICES": "none", "PYTHONPATH": str(folder)}
    return subprocess.run(words, cwd=folder, env=known, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "said", "code"),
    [
        ({}, "coverage: 100.0 % of lines and branches, floor 97.0 %", 0),
        (
            {
                "features/a.feature": "Feature: a\n",
                "robot/a.robot": "*** Test Cases ***\nA\n    No Operation\n",
            },
            "coverage: 66.6 %",
            1,
        ),
        (
            {"tests/test_broken.py": "def test_broken():\n    assert 0\n"},
            "unit: FAILED, exit 1",
            1,
        ),
    ],
    ids=["all well", "what two suites ran is missing", "a failure"],
)
def test_the_session_fails_below_the_floor_and_by_any_failure(
    tmp_path: Path, changed: dict[str, str], said: str, code: int
) -> None:
    ran = _coverage_report(tmp_path, changed)
    assert said in ran.stdout, (ran.stdout, ran.stderr)
    assert ran.returncode == code
    assert (tmp_path / "build/coverage.xml").exists()
