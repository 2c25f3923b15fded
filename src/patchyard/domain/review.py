"""What a reviewer says of a change: a verdict, and findings with file and line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from patchyard.domain.body import Body
from patchyard.domain.role import Unusable

MESSAGE_CHARS = 2000
MOST_FINDINGS = 200  # of one review


class Verdict(StrEnum):
    """Whether a change should be taken."""

    APPROVE = "approve"
    REQUEST_CHANGES = "request_changes"


class Severity(StrEnum):
    """How much a finding weighs; those that weigh most come first."""

    ERROR = "error"  # it must not be taken so
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True)
class ReviewFinding:
    """One thing that a reviewer found."""

    path: str  # relative, POSIX
    line: int  # from 1, in the file as it is after the change
    severity: Severity
    message: str
    rule: str = ""  # a short name of what kind of thing it is


@dataclass(frozen=True, kw_only=True)
class Review:
    """What came of a reviewer's work."""

    verdict: Verdict
    summary: str = ""
    findings: tuple[ReviewFinding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reviewed:
    """A review is done: an event."""

    verdict: Verdict
    subject: str = ""  # what was reviewed, for people
    findings: int = 0
    body: Body = field(default_factory=Body)  # the Review


def read_review(said: Mapping[str, Any], *, lines: Mapping[str, int]) -> Review:
    """Return the review that a finish call states. Raises Unusable.

    `lines` are the files there are after the change, with the number of their lines.
    """
    verdict = str(said.get("verdict") or "")
    if verdict not in list(Verdict):
        raise Unusable(f"`verdict` must be one of {', '.join(Verdict)}, not {verdict!r}")
    rows = said.get("findings") or []
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise Unusable("`findings` must be a list of objects: path, line, severity, message")
    if len(rows) > MOST_FINDINGS:
        raise Unusable(f"at most {MOST_FINDINGS} findings: keep those that weigh most")
    found = [_finding(f"finding {n}", row, lines) for n, row in enumerate(rows, 1)]
    if verdict == Verdict.APPROVE and any(each.severity == Severity.ERROR for each in found):
        raise Unusable("a change with a finding of severity `error` cannot be approved")
    if verdict == Verdict.REQUEST_CHANGES and not found:
        raise Unusable("what is to be changed must stand in `findings`")
    return Review(
        verdict=Verdict(verdict),
        summary=str(said.get("summary") or "")[:MESSAGE_CHARS],
        findings=tuple(sorted(found, key=_order)),
    )


def _order(finding: ReviewFinding) -> tuple[int, str, int]:
    return list(Severity).index(finding.severity), finding.path, finding.line


def _finding(which: str, row: Mapping[str, Any], lines: Mapping[str, int]) -> ReviewFinding:
    path, line = str(row.get("path") or "").removeprefix("./"), row.get("line")
    severity, message = str(row.get("severity") or ""), str(row.get("message") or "").strip()
    if path not in lines:
        raise Unusable(f"{which}: there is no file {path!r} after the change")
    last = max(1, lines[path])
    if type(line) is not int or not 1 <= line <= last:
        raise Unusable(f"{which}: `line` must be one of {path}, from 1 to {last}, not {line!r}")
    if severity not in list(Severity):
        words = ", ".join(Severity)
        raise Unusable(f"{which}: `severity` must be one of {words}, not {severity!r}")
    if not message:
        raise Unusable(f"{which}: `message` is missing")
    return ReviewFinding(
        path=path,
        line=line,
        severity=Severity(severity),
        message=message[:MESSAGE_CHARS],
        rule=str(row.get("rule") or "")[:100],
    )


def sarif_of(
    review: Review, *, tool: str, coverage: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """Return the review in the Static Analysis Results Interchange Format, version 2.1.0.

    The format has no place for `coverage`, so that it stands among the run's properties.
    """
    rules = list(dict.fromkeys(each.rule or "review" for each in review.findings))
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": tool,
                        "rules": [{"id": rule} for rule in rules],
                    }
                },
                "results": [_result(each) for each in review.findings],
                "properties": {"verdict": str(review.verdict), "coverage": coverage},
            }
        ],
    }


def _result(finding: ReviewFinding) -> Mapping[str, Any]:
    return {
        "ruleId": finding.rule or "review",
        "level": str(finding.severity),
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": finding.path},
                    "region": {"startLine": finding.line},
                }
            }
        ],
    }


REVIEW_SCHEMA: Mapping[str, Any] = {
    "verdict": {"type": "string", "enum": [str(each) for each in Verdict]},
    "findings": {
        "type": "array",
        "description": "what is wrong with the change, each at its line; empty where nothing is",
        "items": {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "line": {"type": "integer", "description": "in the file after the change"},
                "severity": {"type": "string", "enum": [str(each) for each in Severity]},
                "message": {"type": "string", "description": "what is wrong, and how to mend it"},
                "rule": {"type": "string", "description": "a short name of the kind of mistake"},
            },
            "required": ["path", "line", "severity", "message"],
        },
    },
}

__all__ = [
    "MESSAGE_CHARS",
    "MOST_FINDINGS",
    "REVIEW_SCHEMA",
    "Review",
    "ReviewFinding",
    "Reviewed",
    "Severity",
    "Verdict",
    "read_review",
    "sarif_of",
]
