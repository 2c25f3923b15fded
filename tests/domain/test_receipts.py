"""Receipts: made of a plan's data, as JSON and as a page that nobody's words can break."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from patchyard.domain.receipt import receipt, receipt_markdown

PAGE = Path(__file__).parents[2] / "docs/reference/results.md"


@pytest.fixture
def data() -> dict[str, Any]:
    found = re.search(r"^```json sample\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    whole: dict[str, Any] = json.loads(found[1])["data"]
    return whole


def failed(data: dict[str, Any], **more: Any) -> dict[str, Any]:
    row = data["validation"][0] | {"name": "lint", "passed": False, "status": "failed", **more}
    return data | {"validation": [row], "proven_tree": None}


def test_the_sample_of_the_documents_holds_its_own_receipt(data: dict[str, Any]) -> None:
    assert receipt(data) == data["receipt"]
    assert data["receipt"]["verdict"] == "proven"


def test_the_verdict_is_one_word(data: dict[str, Any]) -> None:
    assert receipt(failed(data))["verdict"] == "refused"
    assert receipt(failed(data, required=False))["verdict"] == "unproven"
    assert receipt(data | {"changeset": None})["verdict"] == "nothing"


def test_a_page_says_that_a_hand_over_was_taken_back(data: dict[str, Any]) -> None:
    told = data | {"phase": "apply", "state": "applied"}
    handed = told | {"applied": {"to": "worktree", "reference": ""}}
    assert "**, apply/applied, plan" in receipt_markdown(receipt(handed))
    assert "**, apply/applied (taken back), plan" in receipt_markdown(
        receipt(told | {"applied": None})
    )


def test_a_page_holds_what_the_json_holds(data: dict[str, Any]) -> None:
    bad = {"path": "a.py", "line": 3, "rule": "E1", "message": "bad"}
    told = failed(
        data,
        findings=[bad],
        new=1,
        problem="no report",
        notes=["1 test newly skipped"],
        required=False,
        before=None,
    )
    told |= {
        "touched_proof": ["tests/test_a.py"],
        "applied": {"to": "branch", "reference": "agents/x"},
        "error_message": "1 of 1 gates fail",
    }
    page = receipt_markdown(receipt(told), [{"status": "modified", "path": "a.py"}] * 101)
    for words in (
        "**unproven**, execute/complete",
        "| `lint` | - | failed (advisory) | 1 | 0 |",
        "- `a.py:3: E1: bad`",
        "- `no report`",
        "- `1 test newly skipped`",
        "the proof goes by: `tests/test_a.py`",
        "- branch: `agents/x`",
        "  - modified: `a.py`",
        "  - and 1 more",
        "> 1 of 1 gates fail",
        data["journal_head"],
    ):
        assert words in page


def test_nothing_that_others_wrote_is_markup(data: dict[str, Any]) -> None:
    evil = "</td><script>x</script> [a](b) ![c](d) `e` | f\n# g\n\x1b[31m"
    told = failed(data, findings=[{"path": evil, "rule": evil, "message": evil}], notes=[evil])
    told |= {"task": evil, "summary": evil, "touched_proof": [evil], "models": [evil]}
    page = receipt_markdown(receipt(told), [{"status": "added", "path": evil}])
    outside = re.sub(r"`[^`\n]*`", "", page.replace("\\`", ""))
    assert not re.search(r"(?<!\\)[<\[!]", outside)
    assert "\n# g" not in page
    assert "\x1b" not in page


def test_a_plan_that_has_not_begun_has_a_receipt_too(data: dict[str, Any]) -> None:
    told = data | {"base": None, "changeset": None, "validation": [], "summary": ""}
    told |= {"proven_tree": None, "models": [], "cost": {**data["cost"], "usd": None}}
    told["strategy"] = {**data["strategy"], "summary": ""}
    page = receipt_markdown(receipt(told))
    assert "**nothing**" in page
    assert "price unknown" in page
    assert "None ran: the result is unproven." in page
