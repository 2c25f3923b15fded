"""What a reviewer or an architect said, as data: what can be used, and what is wrong."""

from collections.abc import Mapping
from typing import Any

import pytest

from patchyard.domain.design_record import markdown_of, read_record
from patchyard.domain.review import Severity, read_review, sarif_of
from patchyard.domain.role import Unusable

LINES = {"a.py": 3, "empty": 0}
ROW = {"path": "./a.py", "line": 2, "severity": "warning", "message": " slow "}


def said(**changes: Any) -> dict[str, Any]:
    return {"verdict": "request_changes", "findings": [{**ROW, **changes}]}


def test_findings_are_ordered_by_weight_and_place() -> None:
    rows = [ROW, {**ROW, "line": 1}, {**ROW, "severity": "error", "line": 3}]
    review = read_review({"verdict": "request_changes", "findings": rows}, lines=LINES)
    assert [(each.severity, each.line) for each in review.findings] == [
        (Severity.ERROR, 3),
        (Severity.WARNING, 1),
        (Severity.WARNING, 2),
    ]
    assert review.findings[0].path == "a.py"
    run = sarif_of(review, tool="t")["runs"][0]
    assert [each["level"] for each in run["results"]] == ["error", "warning", "warning"]
    assert run["tool"]["driver"]["rules"] == [{"id": "review"}]


@pytest.mark.parametrize(
    ("product", "words"),
    [
        ({}, "`verdict` must be one of approve, request_changes, not ''"),
        ({"verdict": "request_changes"}, "what is to be changed must stand in `findings`"),
        ({"verdict": "approve", "findings": {}}, None),
        ({"verdict": "approve", "findings": "x"}, "`findings` must be a list"),
        ({"verdict": "approve", "findings": ["x"]}, "`findings` must be a list"),
        ({"verdict": "approve", "findings": [ROW] * 201}, "at most 200 findings"),
        ({**said(severity="error"), "verdict": "approve"}, "cannot be approved"),
        (said(path="b.py"), "finding 1: there is no file 'b.py' after the change"),
        (said(line=4), "`line` must be one of a.py, from 1 to 3, not 4"),
        (said(line=True), "not True"),
        (said(line="2"), "not '2'"),
        (said(path="empty", line=1), None),
        (said(severity="bad"), "`severity` must be one of error, warning, note, not 'bad'"),
        (said(message=" "), "`message` is missing"),
    ],
)
def test_what_is_wrong_with_a_review_is_said(product: Mapping[str, Any], words: str | None) -> None:
    if words is None:
        read_review(product, lines=LINES)
        return
    with pytest.raises(Unusable) as caught:
        read_review(product, lines=LINES)
    assert words in str(caught.value)


RECORD = {
    "title": " One\n queue ",
    "context": "c",
    "decision": "d",
    "consequences": "e",
    "options": [{"name": "one", "reason": "simple"}, {"name": "two"}],
}


def test_a_record_is_a_page() -> None:
    page = markdown_of(read_record(RECORD))
    assert page.startswith("# One queue\n\n## Context\n\nc\n\n## Options\n\n- one: simple\n- two\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"consequences": ["a", "b"]}, "`consequences` must be text, not a list"),
        ({"decision": " "}, "`decision` is missing"),
        ({"context": 3}, "`context` must be text, not a number"),
        ({"options": "x"}, "`options` must be a list"),
        ({"options": [{"name": "one"}, {"reason": "r"}]}, "at least two ways"),
    ],
)
def test_what_is_wrong_with_a_record_is_said(change: Mapping[str, Any], words: str) -> None:
    with pytest.raises(Unusable) as caught:
        read_record({**RECORD, **change})
    assert words in str(caught.value)
