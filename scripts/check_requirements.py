"""The requirements page lists every number once, and each test that it names exists.

A row is `| A1 | the source's name | ours | shown by |`. Shown by holds `planned`, `not ours`, or
tests in backticks: `tests/x/test_y.py::test_z`, `features/x.feature: Scenario name`,
`robot/x.robot: Case name`; other backticked paths must exist.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tree import ROOT, report

__all__ = ["DEFECTS", "NUMBERS", "findings"]

PAGE = ROOT / "docs/reference/requirements.md"
_LAST = {"A": 21, "B": 17, "C": 37, "D": 20, "E": 26}
NUMBERS = [
    f"{letter}{number}"
    for letter, last in _LAST.items()
    for number in range(0 if letter == "C" else 1, last + 1)
]
DEFECTS = [f"D+{number}" for number in range(1, 12)]
_DEFECT = re.compile(r"^\| *(D\+\d+) *\|.*\|(.*)\|$", re.MULTILINE)
_ROW = re.compile(r"^\| *([A-E]\d+) *\|(.*)\|$", re.MULTILINE)
_CELLS = 3


def _missing(reference: str, root: Path) -> str | None:
    """Why a named proof is not there, or None."""
    path, separator, name = reference.partition("::")
    if not separator:
        path, separator, name = reference.partition(": ")
    file = root / path
    if not file.is_file():
        return f"{path} does not exist"
    if not separator:
        return None
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        function = re.escape(name.rpartition("::")[2].partition("[")[0])
        there = re.search(rf"^\s*(async )?def {function}\(", text, re.MULTILINE)
    elif file.suffix == ".feature":
        there = re.search(rf"^\s*Scenario( Outline)?: {re.escape(name)}\s*$", text, re.MULTILINE)
    else:
        there = re.search(rf"^{re.escape(name)}\s*$", text, re.MULTILINE)
    return None if there else f"{path} has no {name!r}"


def findings(page: str, root: Path) -> Iterator[str]:
    """Numbers missing or doubled, rows of a wrong shape, proofs that do not exist."""
    rows: dict[str, list[str]] = {}
    for number, rest in _ROW.findall(page):
        if number in rows:
            yield f"{number} is listed twice"
        rows[number] = [cell.strip() for cell in rest.split("|")]
    yield from (f"{number} is not listed" for number in NUMBERS if number not in rows)
    yield from (f"{number} is no requirement" for number in rows if number not in NUMBERS)
    listed = [number for number, _ in _DEFECT.findall(page)]
    yield from (f"{number} is not listed once" for number in DEFECTS if listed.count(number) != 1)
    for number, shown in _DEFECT.findall(page):
        yield from _shown(number, shown, root)
    for number, cells in rows.items():
        if len(cells) != _CELLS or not all(cells):
            yield f"{number}: needs the source's name, ours, and what shows it"
            continue
        yield from _shown(number, cells[2], root)


def _shown(number: str, shown: str, root: Path) -> Iterator[str]:
    """What is wrong with the last cell of a row."""
    references = re.findall(r"`([^`]+)`", shown)
    if not references and not re.search(r"\b(planned|not ours)\b", shown):
        yield f"{number}: neither a test nor 'planned': {shown}"
    for reference in references:
        if why := _missing(reference, root):
            yield f"{number}: {why}"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    planned = len(re.findall(r"^\|.*\bplanned\b[^|]*\|$", text, re.MULTILINE))
    sys.exit(report("requirements", list(findings(text, ROOT)), note=f"{planned} planned"))
