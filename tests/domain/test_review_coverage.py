"""Coverage of what is reviewed: commands that measure, and what reports say of changed lines."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from patchyard.domain.gates import Gate, Reads
from patchyard.domain.review_coverage import (
    MOST_LINES,
    CoverageMeasured,
    changed_coverage,
    coverage_words,
    measuring,
    uncovered_places,
    with_coverage,
)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python3 -m pytest -q", "python3 -m coverage run {} -m pytest -q"),
        ("pytest -q tests", "python3 -m coverage run {} -m pytest -q tests"),
        (".venv/bin/pytest", ".venv/bin/python -m coverage run {} -m pytest"),
        ("cd a && A=1 pytest -x", "cd a && A=1 python3 -m coverage run {} -m pytest -x"),
        (
            "A=1 /opt/python3.12 -B -W ignore -m unittest discover -q",
            "A=1 /opt/python3.12 -B -W ignore -m coverage run {} -m unittest discover -q",
        ),
    ],
)
def test_a_command_that_runs_python_tests_is_made_to_measure(command: str, words: str) -> None:
    source = '--source="$top$(test -d "$top/src" && echo ",$top/src")"'
    where = f'--data-file="$top/.git/patchyard-coverage" {source}'
    assert with_coverage(command).splitlines()[2] == words.format(where)


def run(command: str, report: Path) -> None:
    """Run a command that measures, beside its report."""
    done = subprocess.run(
        ["sh", "-c", command.replace("{report}", str(report))],
        cwd=report.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_runs_of_one_command_are_measured_into_one_report(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.py").write_text("def called():\n    return 1\n")
        (tmp_path / f"test_{name}.py").write_text(
            f"from {name} import called\n\n\ndef test_{name}():\n    assert called()\n"
        )
    python = shlex.quote(sys.executable)
    said = (
        f"{python} -m pytest -q test_one.py && PATH={Path(sys.executable).parent}:$PATH pytest -q"
    )
    command = with_coverage(f"{said} test_two.py; {python} -m pytest -q test_three.py")
    report = tmp_path / "report.xml"
    run(command, report)
    assert report.read_text().count('<class name="test_') == 3
    assert 'hits="0"' not in report.read_text()


@pytest.mark.parametrize(
    "command", ["npm test", "make", "pip install pytest", "pytest-3", "python3 -m pytest_x", "true"]
)
def test_other_commands_measure_nothing(command: str) -> None:
    assert with_coverage(command) == ""
    assert measuring((), (command,)) == ()


def test_a_gate_that_reads_coverage_goes_before_what_is_made_of_commands() -> None:
    own = Gate(name="mine", command="gcovr", reads=Reads.COVERAGE)
    tests = Gate(name="tests", command="pytest -q", is_tests=True)
    assert measuring((tests, own), ("pytest -q",)) == (own,)
    (made,) = measuring((tests,), ("make", "pytest -q"))
    assert (made.reads, "-m pytest -q" in made.command) == (Reads.COVERAGE, True)


def test_the_command_measures_from_wherever_its_tests_run(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "test_a.py").write_text(
        "import unittest\n\n\nclass A(unittest.TestCase):\n"
        "    def test_a(self):\n        self.assertTrue(1)\n"
    )
    command = with_coverage(f"cd deep && {shlex.quote(sys.executable)} -m unittest -q")
    report = tmp_path / "report.xml"
    run(command, report)
    assert 'filename="deep/test_a.py"' in report.read_text()


def test_lines_count_that_are_changed_and_can_run_and_one_report_is_enough() -> None:
    added = {"a.py": dict.fromkeys((1, 2, 3, 4, 6), ""), "b.js": {1: ""}, "c.py": {9: ""}}
    one = {"a.py": {1: True, 2: False, 3: False, 5: False, 6: False}, "c.py": {1: True}}
    two = {"a.py": {2: True}}
    found = changed_coverage(added, (one, two), paths=("a.py", "b.js", "setup.cfg", ".coveragerc"))
    (row,) = found.files  # nothing that was changed in c.py can run
    assert (row.path, row.measured, row.covered, row.uncovered) == ("a.py", 4, 2, (3, 6))
    assert found.unreported == ("b.js",)
    assert found.settings == ("setup.cfg", ".coveragerc")
    assert uncovered_places(found) == ["a.py:3", "a.py:6"]


def test_so_many_lines_are_named_and_all_are_counted() -> None:
    lines = dict.fromkeys(range(1, MOST_LINES + 2), "")
    added = {"a.py": lines, "b.py": lines}
    report = {path: dict.fromkeys(lines, False) for path in added}
    found = changed_coverage(added, (report,), paths=())
    assert [len(row.uncovered) for row in found.files] == [MOST_LINES, 0]
    assert [row.measured for row in found.files] == [MOST_LINES + 1] * 2
    assert uncovered_places(found) == [f"a.py:1-{MOST_LINES}"]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (CoverageMeasured(problem="no tool"), "not measured: no tool"),
        (CoverageMeasured(changed=2), "none of the changed lines is one that can run"),
        (CoverageMeasured(measured=3, covered=2), "2 of 3 changed lines run (66.7 %)"),
    ],
)
def test_it_is_said_in_one_line(event: CoverageMeasured, words: str) -> None:
    assert coverage_words(event) == words
