"""The gate on coverage (A20): 97 % at least, measured by one session, reported as XML."""

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
