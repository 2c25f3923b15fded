"""What a search passes over since this user may not read it is counted and told to the model."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from patchyard.domain.tooling import ToolResult
from patchyard.toolbox import grep
from patchyard.tools import codebase_search, grep_search, list_directory, search_files
from toolboxes import Operations

NOBODY = 65534
CLOSED = "[2 folders or files were closed to this user and passed over]"
ONE = "[1 folder or file was closed to this user and passed over]"


@contextmanager
def as_nobody() -> Iterator[None]:
    """Look at files as an ordinary user does; a user that is no root stays who it is."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def workspace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="patchyard-test-") as name:
        top = Path(name)
        top.chmod(0o755)
        for path in ("open/a.txt", "closed/b.txt", "c.txt"):
            place = top / path
            place.parent.mkdir(exist_ok=True)
            place.write_text("needle\n")
        (top / "c.txt").chmod(0)
        (top / "closed").chmod(0)
        yield top
        (top / "closed").chmod(0o755)


def said(workspace: Path, op: str, **args: Any) -> Mapping[str, Any]:
    with as_nobody():
        return Operations(workspace).run(op, **args)


def shown(tool: Any, data: Mapping[str, Any]) -> str:
    text: str = tool.show(ToolResult(call_id="c", success=True, message="", data=data))
    return text


@pytest.mark.parametrize("by", ["ripgrep", "python"])
def test_a_search_of_contents_counts_files_and_folders_that_are_closed(
    by: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "python":
        monkeypatch.setattr(grep, "find_ripgrep", lambda _path: "")
    elif not grep.find_ripgrep(""):
        pytest.skip("no ripgrep here")
    found = said(workspace, "grep_search", pattern="needle")
    assert (found["matches"], found["unreadable"]) == (["open/a.txt:1:needle"], 2)
    assert shown(grep_search, found).endswith(CLOSED)
    missed = said(workspace, "grep_search", pattern="not there")
    assert (missed["matches"], missed["unreadable"]) == ([], 2)
    assert shown(grep_search, missed) == f"no match\n{CLOSED}"
    (workspace / "closed").chmod(0o755)
    (workspace / "c.txt").chmod(0o644)
    assert said(workspace, "grep_search", pattern="not there")["unreadable"] == 0


def test_what_is_not_asked_for_is_not_counted(workspace: Path) -> None:
    found = said(workspace, "grep_search", pattern="needle", include_pattern="open/*")
    assert (found["match_count"], found["unreadable"]) == (1, 1)  # what lies in a closed folder


def test_a_search_of_names_counts_closed_folders(workspace: Path) -> None:
    found = said(workspace, "search_files", query="b.txt")
    assert (found["files"], found["unreadable"]) == ([], 1)
    assert shown(search_files, found) == f"no file has such a name\n{ONE}"
    listed = said(workspace, "list_directory", recursive=True)
    assert listed["unreadable"] == 1
    assert shown(list_directory, listed).endswith(ONE)


def test_a_search_of_words_counts_both_and_reads_what_is_opened_later(workspace: Path) -> None:
    with as_nobody():
        operations = Operations(workspace)
        for _ in range(2):
            found = operations.run("codebase_search", query="needle")
            assert ([row["path"] for row in found["results"]], found["unreadable"]) == (
                ["open/a.txt"],
                2,
            )
    assert shown(codebase_search, found).endswith(CLOSED)
    (workspace / "c.txt").chmod(0o644)
    with as_nobody():
        found = operations.run("codebase_search", query="needle")
    assert {row["path"] for row in found["results"]} == {"open/a.txt", "c.txt"}
    assert found["unreadable"] == 1


def test_a_toolbox_that_does_not_count_is_understood() -> None:
    assert shown(search_files, {"files": ["a"]}) == "a"
    assert shown(grep_search, {"unreadable": "two"}) == "no match"
