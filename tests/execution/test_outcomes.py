"""What a toolbox says is a claim: fields of another type keep their defaults."""

from typing import Any

import pytest

from patchyard.execution import (
    CommandResult,
    GrepSearchResult,
    ListDirectoryResult,
    ReadFileResult,
    SearchFilesResult,
)
from patchyard.execution.outcomes import CodebaseSearchResult, outcome_of


def test_what_fits_is_taken() -> None:
    said = {"success": True, "message": "m", "content": "c", "total_lines": 3, "unknown": 1}
    result = outcome_of(ReadFileResult, said)
    assert (result.success, result.message, result.content, result.total_lines) == (
        True, "m", "c", 3,
    )  # fmt: skip
    assert (result.error, result.start_line) == (None, 0)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"success": "yes"},
        {"success": 1, "error": 7},
        {"success": False, "error": None, "content": 5, "total_lines": "3", "size": True},
        {"success": False, "message": [], "truncated": 1, "retryable": True},
    ],
)
def test_what_does_not_fit_is_a_failure_with_the_fallbacks_values(said: dict[str, Any]) -> None:
    result = outcome_of(ReadFileResult, said)
    assert result == ReadFileResult(error="UNKNOWN_ERROR")


def test_a_success_has_no_error_and_a_failure_one() -> None:
    assert outcome_of(CommandResult, {"success": True, "error": "X"}).error is None
    failed = outcome_of(CommandResult, {"success": False, "error": "TIMEOUT", "exit_code": -9})
    assert (failed.error, failed.exit_code, failed.success) == ("TIMEOUT", -9, False)
    assert outcome_of(CommandResult, {"exit_code": True}).exit_code is None
    assert outcome_of(CommandResult, {"elapsed_s": 3}).elapsed_s == 3


def test_rows_that_are_none_are_left_out() -> None:
    rows = [{"name": "a", "is_directory": True}, 7, {"name": 7, "type": "directory"}]
    listed = outcome_of(ListDirectoryResult, {"success": True, "contents": rows})
    assert [(row.name, row.type, row.is_directory) for row in listed.contents] == [
        ("a", "file", True),
        ("", "directory", False),
    ]
    assert outcome_of(SearchFilesResult, {"files": ["a", 1, None]}).files == ("a",)
    assert outcome_of(SearchFilesResult, {"files": "abc"}).files == ()
    lines = outcome_of(GrepSearchResult, {"detailed_matches": [{"file": "a", "line_number": 1}]})
    assert lines.detailed_matches[0].line_number == 1
    pieces = outcome_of(CodebaseSearchResult, {"results": [{"relevance": 1}]})
    assert pieces.results[0].relevance == 1


def test_what_is_known_wins() -> None:
    said = {"success": True, "job_id": "other", "command": "lie"}
    assert outcome_of(CommandResult, said, job_id="mine").job_id == "mine"
