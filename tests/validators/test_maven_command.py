"""What the gate of Maven runs: reports of all modules become one, and a broken machine is told."""

import os
import subprocess
from pathlib import Path

import pytest

from patchyard.domain.gate_findings import Outcome
from patchyard.domain.gates import PLACEHOLDER, REPORT
from patchyard.domain.shipped_gates import SHIPPED
from patchyard.registry import READERS, load

# Stands in for Maven: two modules, one report each.
MAVEN = """#!/bin/sh
for module in one two; do
  mkdir -p $module/target/surefire-reports
  cat > $module/target/surefire-reports/TEST-$module.xml <<END
<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="shop.Test$module"><testcase name="a" classname="shop.Test$module">
<failure message="no">x
	at shop.Test$module.a(Test$module.java:7)
</failure></testcase></testsuite>
END
done
echo "$SAYS"
exit $CODE
"""
CRASHED = "The forked VM terminated without properly saying goodbye."
GATE = SHIPPED["mvn-test"]


def run(folder: Path, *, says: str = "", code: int = 0) -> int:
    tool = folder / "bin/mvn"
    for place in (tool, folder / REPORT):
        place.parent.mkdir()
    tool.write_text(MAVEN)
    tool.chmod(0o755)
    command = GATE.command.replace(PLACEHOLDER, REPORT)
    path = f"{tool.parent}:{os.environ['PATH']}"
    environ = {"PATH": path, "SAYS": says, "CODE": str(code)}
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=environ, check=False)
    return done.returncode


def test_reports_of_all_modules_are_read_as_one_with_their_places(tmp_path: Path) -> None:
    for module in ("one", "two & a half"):
        sources = tmp_path / module / "src/test/java/shop"
        sources.mkdir(parents=True)
        (sources / f"Test{module[:3]}.java").write_text("")
    old = tmp_path / "old/target/surefire-reports/TEST-old.xml"
    old.parent.mkdir(parents=True)
    old.write_text("<testsuite><testcase name='old'/></testsuite>")

    assert run(tmp_path) == 0

    report = (tmp_path / REPORT).read_bytes()
    reading = load(READERS[GATE.reads])().read(report, GATE, root=str(tmp_path))
    assert reading.tests == dict.fromkeys(["shop.Testone::a", "shop.Testtwo::a"], Outcome.FAILED)
    assert [(each.path, each.line) for each in reading.findings] == [
        ("one/src/test/java/shop/Testone.java", 7),
        ("two & a half/src/test/java/shop/Testtwo.java", 7),
    ]


@pytest.mark.parametrize(("says", "code", "expected"), [(CRASHED, 0, 2), ("", 1, 1)])
def test_what_is_no_failed_test_breaks_the_gate(
    tmp_path: Path, says: str, code: int, expected: int
) -> None:
    assert run(tmp_path, says=says, code=code) == expected
    assert expected not in GATE.exit_codes
