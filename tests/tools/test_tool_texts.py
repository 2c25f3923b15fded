"""What a model reads of a result."""

from typing import Any

import pytest

from patchyard.domain.tooling import OUTPUT_PAGE_CHARS, ToolResult, output_page, result_from_wire
from patchyard.tools.cutting import cut
from patchyard.tools.shape import FILE_CHARS, OUTPUT_CHARS
from patchyard.tools.toolset import toolset

TOOLS = toolset("/w")


def text(name: str, *, error: str | None = None, message: str = "", **data: Any) -> str:
    result = ToolResult(
        call_id="01CALL", success=error is None, message=message, error=error, data=data
    )
    return TOOLS[name].render(result)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        (
            "read_file",
            {"content": "x\n", "start_line": 1, "end_line": 1, "total_lines": 4},
            "[lines 1 to 1 of 4; go on with start_line=2]\nx\n",
        ),
        (
            "read_file",
            {"content": "x\n", "start_line": 4, "end_line": 4, "total_lines": 4},
            "[lines 4 to 4 of 4]\nx\n",
        ),
        ("read_file", {"content": "", "total_lines": 0}, "[the file is empty]"),
        ("read_file", {"content": "", "total_lines": 3}, "[no lines there; it has 3]"),
        ("write_file", {"is_new_file": True, "lines_added": 3}, "created: +3 -0 lines"),
        ("write_file", {"lines_added": 1, "lines_removed": 2}, "replaced: +1 -2 lines"),
        ("delete_file", {"was_already_deleted": True}, "there was no such file"),
        ("delete_file", {}, "deleted"),
        ("search_replace", {"lines_added": 1, "lines_removed": 1}, "replaced: +1 -1 lines"),
        (
            "list_directory",
            {"contents": [{"name": "d", "is_directory": True}, {"name": "f"}, "junk"]},
            "d/\nf",
        ),
        (
            "list_directory",
            {
                "contents": [
                    {"name": "d", "relative_path": "d", "is_directory": True},
                    {"name": "f", "relative_path": "d/f"},
                ]
            },
            "d/\nd/f",
        ),
        ("list_directory", {"contents": []}, "[the folder is empty]"),
        (
            "list_directory",
            {"contents": [{"name": "f"}], "truncated": True},
            "f\n[there are more; list one of the folders]",
        ),
        ("search_files", {"files": ["a", 7, "b"]}, "a\nb"),
        (
            "search_files",
            {"files": ["a"], "truncated": True},
            "a\n[there are more; narrow the query]",
        ),
        ("search_files", {"files": []}, "no file has such a name"),
        (
            "grep_search",
            {"detailed_matches": [{"file": "a", "line_number": 3, "content": "hit"}]},
            "a:3: hit",
        ),
        ("grep_search", {"detailed_matches": "junk"}, "no match"),
        (
            "codebase_search",
            {"results": [{"path": "a", "line_start": 1, "line_end": 2, "content": "x\n"}]},
            "--- a:1-2\nx",
        ),
        ("codebase_search", {}, "nothing fits these words"),
        (
            "codebase_search",
            {"truncated": True},
            "[not every file was searched; grep_search does that]",
        ),
        ("execute_command", {"exit_code": 0, "stdout": "out\n"}, "[exit code 0]\nout"),
        ("execute_command", {"exit_code": 0}, "[exit code 0]\n[no output]"),
        (
            "execute_command",
            {"exit_code": 1},
            "[exit code 1]\n[no output; what asks for input gets none]",
        ),
        (
            "execute_command",
            {"job_id": "j1", "is_background": True},
            '[runs in the background; job_output(job_id="j1") shows how it goes]',
        ),
        ("job_output", {"is_running": True, "stdout": "x\n"}, "[still running]\nx"),
        ("job_output", {"exit_code": 1, "stderr": "e"}, "[ended, exit code 1]\ne"),
    ],
)
def test_a_result_is_said_in_few_words(name: str, data: dict[str, Any], words: str) -> None:
    assert text(name, **data) == words


def test_a_good_command_that_hit_a_limit_says_so_without_how_long_it_took() -> None:
    said = text(
        "execute_command",
        message="exit code 0 after 0.2 s; the limit `output` was reached: 2 KiB of 1 KiB; look",
        exit_code=0,
        stdout="o",
        limit="output",
    )
    assert said == "[exit code 0]\no\n[the limit `output` was reached: 2 KiB of 1 KiB; look]"


def test_a_failed_command_shows_its_output_and_how_it_died() -> None:
    said = text(
        "execute_command",
        error="COMMAND_FAILED",
        message="killed",
        exit_code=-9,
        signal="SIGKILL",
        stdout="o",
        stderr="e",
    )
    assert said == (
        "failed (COMMAND_FAILED): exit code -9, killed by SIGKILL\no\n[standard error]\ne"
    )


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_every_failure_begins_with_its_code_and_reason(name: str) -> None:
    assert text(name, error="FILE_NOT_FOUND", message="no a").startswith(
        "failed (FILE_NOT_FOUND): no a"
    )


def test_a_path_outside_says_where_the_workspace_is() -> None:
    said = text("read_file", error="PATH_OUTSIDE_WORKSPACE", message="/etc/passwd is outside")
    assert "relative to /w" in said


def test_long_output_keeps_both_ends_and_says_how_to_read_the_rest() -> None:
    lines = "".join(f"line {number}\n" for number in range(50_000))
    said = text("execute_command", exit_code=0, stdout=lines)
    assert len(said) < OUTPUT_CHARS + 300
    assert "line 0\n" in said
    assert said.endswith("line 49999")
    assert 'read_output(call_id="01CALL", offset=' in said


def test_a_page_of_a_file_may_be_longer() -> None:
    content = "x" * 60 + "\n"
    data: dict[str, Any] = {
        "start_line": 1,
        "end_line": 900,
        "total_lines": 900,
        "content": content * 900,
    }
    assert len(text("read_file", **data)) > 900 * 60
    assert len(text("read_file", **{**data, "content": content * 9000})) < FILE_CHARS + 300


def test_what_was_cut_can_be_read_page_by_page() -> None:
    whole = "".join(f"{number} " for number in range(20_000))
    read, offset = "", 0
    while True:
        result = result_from_wire("01X", output_page(whole, offset=offset))
        read += result.data["content"]
        shown = TOOLS["read_output"].render(result)
        if result.data["next_offset"] is None:
            break
        offset = result.data["next_offset"]
        assert f"go on with offset={offset}" in shown
        assert len(shown) < OUTPUT_PAGE_CHARS + 200
    assert read == whole
    assert output_page(whole, offset=10**9)["content"] == ""


def test_cutting_falls_on_line_ends_and_names_the_right_place() -> None:
    whole = "".join(f"{number:05}\n" for number in range(4_000))
    said = cut(whole, limit=1_000, call_id="c", head_share=0.5)
    head, _, tail = said.partition("[... ")
    assert whole.startswith(head)
    assert head.endswith("\n")
    assert f"offset={len(head)})" in tail
    assert whole.endswith(tail.partition("...]\n")[2])
    assert cut("short", limit=10, call_id="c") == "short"
