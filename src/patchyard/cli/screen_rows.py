"""Rows of a plan's screen: their form, and those of what came of a role."""

from collections.abc import Mapping
from typing import Any

from patchyard.cli.outcome import counted, one_line, paint, visible
from patchyard.domain.assessing import TaskAssessed, consequences
from patchyard.domain.patch_lines import stretches

LANGUAGES = 3  # that are shown
COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}


def row(name: str, text: str) -> str:
    """Return one row; empty without text."""
    return f"  {paint(name.ljust(8), 'cyan')} {text}" if text else ""


SIZES = {"low": "small", "medium": "middling", "high": "large"}
BY = {"words": "by its words", "strategy": "by its strategy"}


def task_line(
    analysis: Mapping[str, Any] | None, assessment: Mapping[str, Any] | None = None
) -> str:
    """Return what the task and its repository look like, and who says of what kind it is."""
    if analysis is None or assessment is None:
        return ""
    shares = analysis["languages"][:LANGUAGES]
    written = "".join(f", {each['language']} {each['files']:,}" for each in shares)
    tests = f"; tests in {', '.join(analysis['tests'][:LANGUAGES])}" if analysis["tests"] else ""
    told = f"{counted(analysis['files'], 'file')}{written}{tests}"
    return f"{assessed_words(assessment)}; {one_line(analysis['problem'] or told)}"


def assessed_words(assessment: Mapping[str, Any]) -> str:
    """Return of what kind and how large a task is, each with who says so."""
    kind, kind_by = assessment["kind"], BY.get(assessment["kind_by"], "")
    size, size_by = SIZES.get(assessment["complexity"], ""), BY.get(assessment["complexity_by"], "")
    if kind_by and kind_by == size_by:
        return f"{size} {kind}, {kind_by}"
    kind_said = f"{kind}, {kind_by}" if kind_by else "of unknown kind"
    return f"{kind_said}; {size}, {size_by}" if size_by else kind_said


def assessed_line(event: TaskAssessed) -> str:
    """Return what a strategy says of the task, and what follows; empty where it says nothing."""
    said = [str(event.kind)] if event.kind else []
    said += [SIZES[event.complexity]] if event.complexity else []
    return "; ".join((", ".join(said), *consequences(event))) if said else ""


def assessed_rows(assessment: Mapping[str, Any] | None) -> list[str]:
    """Return a row for the role that is proposed, where one is."""
    if assessment is None or not assessment["proposed_role"]:
        return []
    role = assessment["proposed_role"]
    return [row("role", f"{role} is for such tasks: `agents run --role {role}`")]


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


__all__ = [
    "COLOURS",
    "assessed_line",
    "assessed_rows",
    "assessed_words",
    "product_rows",
    "row",
    "task_line",
]
