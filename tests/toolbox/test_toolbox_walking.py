"""Walking through a workspace that changes meanwhile, and listing all of it."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from patchyard.toolbox import listing, ranking
from patchyard.toolbox.walking import entries, walk
from toolboxes import Operations


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    for name in ("a/one", "b/two", "node_modules/x", "c"):
        place = tmp_path / "top" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(name)
    descriptor = os.open(tmp_path / "top", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_walks_files_in_order_past_what_nobody_searches(top: int) -> None:
    assert [found.path for found in walk(top, "")] == ["a/one", "b/two", "c"]
    assert [found.path for found in walk(top, "x", only="b")] == ["x/b/two"]
    assert [found.path for found in entries(top, "")] == ["a", "a/one", "b", "b/two", "c"]


def test_a_fifo_in_the_place_of_a_file_that_was_found_is_not_read(top: int, tmp_path: Path) -> None:
    walking = walk(top, "")  # kept: its folders are open as long as it goes on
    found = next(each for each in walking if each.path == "c")
    place = tmp_path / "top/c"
    place.unlink()
    os.mkfifo(place)
    writing = os.open(place, os.O_RDWR)  # as who swapped it would hold it open, and write
    os.write(writing, b"without end")
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert found.read(100) is None
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert os.read(writing, 100) == b"without end"
    os.close(writing)
    assert list(walking) == []


def test_a_folder_that_goes_while_it_is_walked_is_passed_over(top: int, tmp_path: Path) -> None:
    seen = []
    for found in entries(top, ""):
        seen.append(found.path)
        if found.path == "a":
            (tmp_path / "top/a/one").unlink()
            (tmp_path / "top/a").rmdir()
    assert seen == ["a", "b", "b/two", "c"]


@pytest.mark.usefixtures("uncollected")
def test_a_folder_that_cannot_be_listed_leaves_no_descriptor_open(
    top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir
    before = set(Path("/proc/self/fd").iterdir())

    def fails(folder: int) -> AbstractContextManager[Iterator["os.DirEntry[str]"]]:
        if Path(f"/proc/self/fd/{folder}").readlink().name == "a":
            raise OSError(5, "Input/output error")
        return real(folder)

    monkeypatch.setattr(os, "scandir", fails)
    assert [found.path for found in walk(top, "")] == ["b/two", "c"]
    monkeypatch.undo()
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_file_that_goes_or_is_too_large_is_not_read(top: int, tmp_path: Path) -> None:
    seen = 0
    for found in walk(top, "", only="c"):
        seen += 1
        assert found.read(1) == b"c"
        assert found.read(0) is None
        (tmp_path / "top/c").unlink()
        assert found.read(1) is None
    assert seen == 1


def test_lists_everything_below_a_folder(tools: Operations) -> None:
    for name in ("src/deep/a.py", "src/b.py", "src/node_modules/x/y", ".git/HEAD", "src/dist/z"):
        place = tools.workspace / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    (tools.workspace / "src/link").symlink_to("..")
    result = tools.run("list_directory", recursive=True)
    rows = [(row["relative_path"], row["name"], row["type"]) for row in result["contents"]]
    assert rows == [
        ("src", "src", "directory"),
        ("src/b.py", "b.py", "file"),
        ("src/deep", "deep", "directory"),
        ("src/deep/a.py", "a.py", "file"),
        ("src/link", "link", "link"),
    ]
    assert (result["path"], result["total_count"], result["truncated"]) == (".", 5, False)
    below = tools.run("list_directory", path="src", recursive=True)
    assert [row["relative_path"] for row in below["contents"]][:2] == ["b.py", "deep"]
    assert below["path"] == "src"
    assert tools.code("list_directory", path="none", recursive=True) == "DIRECTORY_NOT_FOUND"
    assert tools.code("list_directory", recursive="yes") == "VALIDATION_ERROR"


def test_a_list_that_is_cut_counts_what_it_leaves_out(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (tools.workspace / str(number)).touch()
    monkeypatch.setattr(listing, "MAX_ENTRIES", 3)
    for args in ({}, {"recursive": True}):
        result = tools.run("list_directory", **args)
        assert (len(result["contents"]), result["total_count"]) == (3, 5)
        assert result["truncated"] is True
    monkeypatch.setattr(listing, "DEADLINE_S", -1)
    late = tools.run("list_directory", recursive=True)
    assert (late["total_count"], late["truncated"]) == (1, True)


def test_ranking_goes_on_step_by_step_and_past_files_that_go(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "STEP_S", -1)
    for number in range(3):
        (tools.workspace / str(number)).write_text("zebra")
    index = ranking.Index(ranking.Counted())
    tools.room.index = index
    top = os.open(tools.workspace, os.O_RDONLY)
    steps = index.renew(top)
    next(steps)
    (tools.workspace / "1").unlink()
    for _ in steps:
        assert not index.is_partial
    os.close(top)
    assert [row["path"] for row in index.find(["zebra"])] == ["0", "2"]


def test_ranking_counts_words_where_python_has_no_sqlite(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tools.workspace / "a").write_text("zebra")
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    result = tools.run("codebase_search", query="zebra")
    assert [row["path"] for row in result["results"]] == ["a"]
    assert isinstance(tools.room.index, ranking.Index)
    assert isinstance(tools.room.index._store, ranking.Counted)
