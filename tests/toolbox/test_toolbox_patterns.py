"""Patterns that are odd, wrong or take for ever, and searches that lose their helper."""

import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from patchyard.toolbox import alarm, grep, listing, ranking
from patchyard.toolbox.answers import success
from toolboxes import Operations


@pytest.fixture
def by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep, "find_ripgrep", lambda _path: "")


@pytest.mark.parametrize("query", ["[id].tsx", "[ID]", "routes/[id]"])
def test_a_name_with_brackets_is_found_as_it_is(tools: Operations, query: str) -> None:
    (tools.workspace / "routes").mkdir()
    for name in ("[id].tsx", "i.tsx"):
        (tools.workspace / "routes" / name).touch()
    assert "routes/[id].tsx" in tools.run("search_files", query=query)["files"]


@pytest.mark.parametrize("pattern", ["[z-a]", "{" * 5000])
def test_a_pattern_that_means_nothing_is_refused(tools: Operations, pattern: str) -> None:
    assert tools.code("search_files", query=pattern) == "INVALID_PATTERN"
    args = {"pattern": "x", "include_pattern": pattern}
    assert tools.code("grep_search", **args) == "INVALID_PATTERN"


def test_a_pattern_that_backtracks_for_ever_is_ended(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tools.workspace / ("a" * 250)).write_text("x")
    monkeypatch.setattr(listing, "STEP_LIMIT_S", 0.05)
    monkeypatch.setattr(grep, "ONE_FILE_S", 0.05)
    endless = "*a" * 12 + "b"
    assert tools.code("search_files", query=endless) == "TIMEOUT"
    assert tools.code("grep_search", pattern="x", include_pattern=endless) == "TIMEOUT"


@pytest.mark.parametrize("op", ["search_files", "codebase_search"])
@pytest.mark.parametrize("query", ["$(touch pwned)", "; touch pwned #", "`touch pwned`", "-rf x"])
def test_a_query_is_never_shell_or_option(tools: Operations, op: str, query: str) -> None:
    (tools.workspace / query).write_text(query)
    result = tools.run(op, query=query)
    assert query in (result.get("files") or [row["path"] for row in result["results"]])
    assert [path.name for path in tools.workspace.iterdir()] == [query]


def test_a_pattern_that_is_no_bytes_is_refused(tools: Operations) -> None:
    assert tools.code("grep_search", pattern="\ud800") == "VALIDATION_ERROR"


def test_between_steps_the_alarm_is_another_works() -> None:
    before = signal.getsignal(signal.SIGALRM)

    def steps() -> Generator[float, None, dict[str, Any]]:
        yield 0.0
        return success("done")

    one, other = (alarm.in_time(steps(), 60.0) for _ in range(2))
    next(one)
    next(other)
    one.close()
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    other.close()


@pytest.mark.usefixtures("by_python")
def test_files_that_are_not_asked_for_are_passed_step_by_step(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (tools.workspace / f"{number}.txt").write_text("x")
    monkeypatch.setattr(grep, "STEP_S", -1.0)
    search = grep.Search({"pattern": "x", "include_pattern": "*.py"})
    with tools.room.workspace.locate(".") as place:
        area = grep.Area(place.open_folder(), "", "")
    assert len(list(grep.by_python(search, area))) == 5


def test_what_a_dying_ripgrep_found_is_not_found_twice(
    tools: Operations, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tools.workspace / "a").write_text("x\n")
    dying = tmp_path / "rg"
    match = '{"path":{"text":"./a"},"lines":{"text":"x\\n"},"line_number":1}'
    dying.write_text(
        "#!/bin/sh\ncat <<'END'\n"
        f'{{"type":"match","data":{match}}}\n'
        '{"type":"end","data":{"binary_offset":null}}\nEND\nexit 139\n'
    )
    dying.chmod(0o755)
    monkeypatch.setattr(grep, "find_ripgrep", lambda _path: str(dying))
    assert tools.run("grep_search", pattern="x")["matches"] == ["a:1:x"]


def test_a_full_index_still_sees_what_changed(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "MAX_BYTES", 12)
    for name in ("a", "b", "c"):
        (tools.workspace / name).write_text("zebra\n\n\n")
    assert tools.run("codebase_search", query="zebra")["truncated"] is True
    (tools.workspace / "b").write_text("giraffe\n")
    (tools.workspace / "a").unlink()
    found = {row["path"] for row in tools.run("codebase_search", query="giraffe zebra")["results"]}
    assert found == {"b"}


def test_many_places_are_named_by_their_lines(tools: Operations) -> None:
    (tools.workspace / "f").write_text("x\n\nxx\n" * 2)
    result = tools.run("search_replace", path="f", old_string="x", new_string="y")
    assert result["lines"] == [1, 3, 3, 4, 6, 6]
