"""Rows of a plan's screen: their form, and those of what came of a role."""

from collections.abc import Mapping
from typing import Any

from patchyard.cli.outcome import counted, one_line, paint, visible
from patchyard.domain.patch_lines import stretches

LANGUAGES = 3  # that are shown
COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}


def row(name: str, text: str) -> str:
    """Return one row; empty without text."""
    return f"  {paint(name.ljust(8), 'cyan')} {text}" if text else ""


def task_line(analysis: Mapping[str, Any] | None) -> str:
    """Return what the task and its repository look like; the first two are guesses by rule."""
    if analysis is None:
        return ""
    size = {"low": "small", "medium": "middling", "high": "large"}[analysis["complexity"]]
    shares = analysis["languages"][:LANGUAGES]
    written = "".join(f", {each['language']} {each['files']:,}" for each in shares)
    tests = f"; tests in {', '.join(analysis['tests'][:LANGUAGES])}" if analysis["tests"] else ""
    told = f"{counted(analysis['files'], 'file')}{written}{tests}"
    return f"{size} {analysis['kind']}, by its words; {one_line(analysis['problem'] or told)}"


def product_rows(data: Mapping[str, Any]) -> list[str]:
    """Return the rows of a review, a decision record, and of tests that were proven."""
    return [*_review(data.get("review")), *_record(data.get("record")), *_removal(data)]


def _review(review: Mapping[str, Any] | None) -> list[str]:
    if review is None:
        return []
    is_good = review["verdict"] == "approve"
    verdict = paint(review["verdict"].replace("_", " "), "green" if is_good else "red")
    about = f" of {one_line(review['subject'])}" if review.get("subject") else ""
    found = counted(len(review["findings"]), "finding")
    rows = [row("review", f"{verdict}{about}, {found}")]
    for each in review["findings"]:
        where = one_line(f"{each['path']}:{each['line']}")
        severity = paint(each["severity"], COLOURS[each["severity"]])
        rows.append(f"           {where} {severity} {one_line(each['message'])}")
    return [*rows, *_coverage(review["coverage"])]


def _coverage(coverage: Mapping[str, Any] | None) -> list[str]:
    if coverage is None:
        return []
    rows = [row("coverage", one_line(coverage["summary"]))]
    for each in coverage["files"]:
        places = [
            f"{first}" if first == last else f"{first}-{last}"
            for first, last in stretches(each["uncovered"])
        ]
        if places:
            said = f"{each['path']}: no test runs line {', '.join(places)}"
            rows.append(f"           {one_line(said)}")
    return rows


def _record(record: Mapping[str, Any] | None) -> list[str]:
    if record is None:
        return []
    lines = record["markdown"].rstrip().splitlines()
    return [row("record", one_line(record["title"])), *(f"           {visible(x)}" for x in lines)]


def _removal(data: Mapping[str, Any]) -> list[str]:
    removal = data.get("removal")
    if removal is None:
        return []
    without = f"without {one_line(removal['subject'])}"
    if removal["noticed"]:
        named = one_line(", ".join(removal["noticed"]))
        return [row("noticed", f"{named}: {paint('fails', 'green')} {without}")]
    return [row("noticed", paint(f"no test fails {without}", "red"))]


__all__ = ["COLOURS", "product_rows", "row", "task_line"]
