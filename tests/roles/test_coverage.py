"""What a reviewer is told of coverage: measured by the engine on real tests, or why it is not."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.test_proof import Losing
from engine.worksite import Worksite
from mainjob.driver import Answer, Desk, call, git
from patchyard.domain.receipt import receipt_markdown
from patchyard.engine.report import plan_data
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.service("bubblewrap")]

CALC = "def mean(values):\n    return sum(values) / len(values)\n"
LONGER = """def mean(values):
    # of nothing it is 0
    if not values:
        return 0
    return sum(values) / len(values)


def most(values):
    if values:
        return max(values)
    return None
"""
TEST = (
    "import unittest\nfrom calc import mean\n\n\nclass Mean(unittest.TestCase):\n"
    "    def test_mean(self):\n        self.assertEqual(mean([1, 3]), 2)\n"
)
REPORT = "<coverage><class filename='calc.py'>{}</class></coverage>"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A checkout with a change that the tests run in part."""
    made = Desk(folder=tmp_path, repo=tmp_path / "repo")
    for place in (made.home, made.repo):
        place.mkdir()
    git(made.repo, "init", "-q", "-b", "main")
    (made.repo / "calc.py").write_text(CALC)
    (made.repo / "test_calc.py").write_text(TEST)
    git(made.repo, "add", "-A")
    git(made.repo, "commit", "-q", "-m", "start")
    (made.repo / "calc.py").write_text(LONGER)
    (made.repo / "notes.md").write_text("more\n")
    return made


def review(desk: Desk, *options: str, has_tools: bool = True) -> Answer:
    """Run a review whose model is asked once, with this suite's tools on the user's PATH."""
    record = desk.folder / "asked.jsonl"
    record.unlink(missing_ok=True)
    script = f"scripted:{desk.script(call('finish', summary='s', verdict='approve'))}"
    tools = f"{Path(sys.executable).parent}{os.pathsep}" if has_tools else ""
    words = ("run", "look", "--role", "reviewer", "--model", script, "--setup", "")
    environ = {"PATH": f"{tools}{os.environ['PATH']}"}
    said = desk.agents(*words, "--record", str(record), *options, environ=environ)
    desk.clear()
    assert said.code == 0, said.message
    return said


def coverage(said: Answer) -> Mapping[str, Any]:
    found: Mapping[str, Any] = said.data["review"]["coverage"]
    return found


def test_the_changed_lines_that_no_test_runs_are_named_to_all(desk: Desk) -> None:
    said = review(desk, "--validate", "python3 -m unittest -q")
    found = coverage(said)
    assert (found["changed"], found["measured"], found["covered"]) == (10, 6, 2)
    row = {"path": "calc.py", "covered": 2, "measured": 6, "uncovered": [4, 9, 10, 11]}
    assert (found["files"], found["percent"]) == ([row], 33.3)
    assert (found["unreported"], found["problem"]) == (["notes.md"], "")
    assert said.data["review"]["sarif"]["runs"][0]["properties"]["coverage"] == found
    asked = (desk.folder / "asked.jsonl").read_text()
    assert "measured: 2 of 6 changed lines run (33.3 %)." in asked
    assert "No test runs calc.py:4, calc.py:9-11." in asked
    assert "No report knows notes.md." in asked
    shown = desk.agents("plan", "status", said.data["plan_id"], is_json=False).out.decode()
    assert "coverage 2 of 6 changed lines run (33.3 %)" in shown
    assert "calc.py: no test runs line 4, 9-11" in shown
    receipt = said.data["receipt"]
    assert receipt["review"]["coverage"]["covered"] == 2
    assert "- coverage: 2 of 6 changed lines run" in receipt_markdown(receipt)


def test_a_gate_of_the_plan_measures_and_touched_settings_are_told(desk: Desk) -> None:
    lines = "".join(f"<line number='{n}' hits='1'/>" for n in (3, 4, 5))
    (desk.repo / "made.xml").write_text(REPORT.format(lines))
    (desk.repo / ".coveragerc").write_text("[run]\nomit = calc.py\n")
    own = desk.home / ".config" / "patchyard"
    own.mkdir(parents=True)
    gate = {"command": "cp made.xml {report}", "parser": "coverage"}
    (own / "config.yaml").write_text(json.dumps({"gates": {"mine": gate}}))
    found = coverage(review(desk))
    assert (found["covered"], found["measured"]) == (2, 2)
    assert found["commands"] == ["cp made.xml {report}"]
    assert found["settings"] == [".coveragerc"]
    assert (
        "The change touches settings of tools: .coveragerc."
        in (desk.folder / "asked.jsonl").read_text()
    )


@pytest.mark.parametrize(
    ("options", "has_tools", "words"),
    [
        (("--validate", "make test"), True, "no validation command runs pytest or unittest"),
        (("--validate", "/usr/bin/python3 -m pytest -q"), False, "add it to setup"),
        (("--validate", "pytest", "--in", "host"), True, "host has no walls"),
    ],
)
def test_what_cannot_be_measured_is_said_with_the_reason(
    desk: Desk, options: tuple[str, ...], has_tools: bool, words: str
) -> None:
    said = review(desk, *options, has_tools=has_tools)
    found = coverage(said)
    assert words in found["problem"]
    assert (found["measured"], found["percent"], found["files"]) == (0, None, [])
    assert "Coverage of the change: not measured: " in (desk.folder / "asked.jsonl").read_text()
    assert "- coverage: not measured: " in receipt_markdown(said.data["receipt"])


@pytest.mark.anyio
async def test_a_review_goes_on_where_the_environment_of_the_measure_is_lost(
    tmp_path: Path,
) -> None:
    site = Worksite.make(tmp_path, {"calc.py": CALC, "test_calc.py": TEST})
    (site.repository / "calc.py").write_text(LONGER)
    script = site.script([call("finish", summary="s", verdict="approve")])
    async with site.open() as (equipment, _):
        workflow = Workflow(equipment, watching=Watching(on_event=Losing(times=2)))
        asked = site.asked_of(script, role="reviewer", validate=("pytest",))
        plan_id = await site.made(workflow, asked)
        await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    await site.clear()
    assert "was lost twice" in data["review"]["coverage"]["problem"]
