"""A path that leads nowhere is answered with the existing ones that may have been meant."""

from pathlib import Path

import pytest

from patchyard.toolbox import nearest
from toolboxes import Operations


@pytest.fixture(autouse=True)
def tree(tools: Operations) -> Path:
    for name in ("src/pkg/main.py", "src/pkg/util.py", "tests/util.py"):
        file = tools.workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x\n")
    return tools.workspace


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("src/pkg/mian.py", ["src/pkg/main.py"]),
        ("src/pkg/Main.py", ["src/pkg/main.py"]),
        ("pkg/main.py", ["src/pkg/main.py"]),
        ("test/util.py", ["tests/util.py", "src/pkg/util.py"]),
        ("src/util.py", ["src/pkg/util.py", "tests/util.py"]),
        ("scr", ["src/"]),
        ("nothing/like/it", []),
        ("..", []),
        ("/somewhere/else/src/pkg/main.py", ["src/pkg/main.py"]),
    ],
)
def test_the_nearest_paths_come_first(tools: Operations, path: str, near: list[str]) -> None:
    result = tools.run("read_file", path=path)
    assert result["success"] is False
    assert result["near"] == near
    assert result["message"].endswith(f"; did you mean {' or '.join(near)}?") is bool(near)


@pytest.mark.parametrize("op", ["search_replace", "read_file", "grep_search"])
def test_each_operation_on_a_path_says_it(tools: Operations, op: str) -> None:
    words = {"old_string": "a", "new_string": "b", "pattern": "x"}
    assert tools.run(op, path="src/pkg/utl.py", **words)["near"] == ["src/pkg/util.py"]


@pytest.mark.parametrize(
    ("op", "args"),
    [("list_directory", {"path": "test"}), ("execute_command", {"cwd": "test", "command": "x"})],
)
def test_where_a_folder_is_wanted_folders_are_named(
    tools: Operations, tree: Path, op: str, args: dict[str, str]
) -> None:
    (tree / "test.py").touch()
    result = tools.run(op, **args)
    assert (result["error"], result["near"]) == ("DIRECTORY_NOT_FOUND", ["tests/"])


def test_a_link_that_leads_nowhere_is_not_named_itself(tools: Operations, tree: Path) -> None:
    (tree / "link").symlink_to("nowhere")
    assert tools.run("read_file", path="link")["near"] == []


def test_no_more_is_looked_at_than_the_bound(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "SEARCHED", 3)
    assert tools.run("read_file", path="other/main.py")["near"] == ["src/pkg/main.py"]
    assert tools.run("read_file", path="other/util.py")["near"] == []


def test_a_tree_that_cannot_be_read_hides_no_failure(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(nearest, "entries", closed)
    result = tools.run("read_file", path="none")
    assert (result["error"], result["near"]) == ("FILE_NOT_FOUND", [])
