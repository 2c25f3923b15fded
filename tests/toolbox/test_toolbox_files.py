import base64
import os
import stat
from pathlib import Path

import pytest

from toolboxes import Operations


def test_reads_a_file_as_it_is(tools: Operations) -> None:
    (tools.workspace / "a.txt").write_bytes(b"one\r\ntwo\xff\n")
    result = tools.run("read_file", path="a.txt")
    assert result["content"] == "one\r\ntwo\udcff\n"
    assert (result["total_lines"], result["start_line"], result["end_line"]) == (2, 1, 2)
    assert result["paths"] == []
    assert result["started"] <= result["ended"]


def test_the_time_of_a_call_holds_the_times_of_what_it_wrote(tools: Operations) -> None:
    path = tools.workspace / "a.txt"
    for number in range(50):  # kernels stamp finely what was looked at since it last changed
        result = tools.run("write_file", path="a.txt", content=f"{number}\n")
        assert result["started"] <= path.stat().st_ctime <= result["ended"]


def test_an_empty_file_has_no_lines(tools: Operations) -> None:
    (tools.workspace / "empty").touch()
    result = tools.run("read_file", path="empty")
    assert (result["content"], result["total_lines"], result["end_line"]) == ("", 0, 0)


def test_pages_at_a_thousand_lines(tools: Operations) -> None:
    (tools.workspace / "long").write_text("".join(f"{n}\n" for n in range(1, 2501)))
    first = tools.run("read_file", path="long")
    assert (first["start_line"], first["end_line"], first["total_lines"]) == (1, 1000, 2500)
    assert first["content"].endswith("\n1000\n")
    last = tools.run("read_file", path="long", start_line=2001)
    assert last["content"].startswith("2001\n")
    assert last["end_line"] == 2500


@pytest.mark.parametrize(
    ("start", "end", "content"),
    [(2, 2, "b\n"), (3, 99, "c"), (99, None, "c"), (-5, 1, "a\n"), (None, 2, "a\nb\n")],
)
def test_clamps_a_range(
    tools: Operations, start: int | None, end: int | None, content: str
) -> None:
    (tools.workspace / "f").write_text("a\nb\nc")
    result = tools.run("read_file", path="f", start_line=start, end_line=end)
    assert result["content"] == content


def test_a_range_that_runs_backwards_is_refused(tools: Operations) -> None:
    (tools.workspace / "f").write_text("a\nb\n")
    assert tools.code("read_file", path="f", start_line=2, end_line=1) == "VALIDATION_ERROR"


def test_a_line_of_megabytes_is_cut_and_says_so(tools: Operations) -> None:
    (tools.workspace / "f").write_bytes(b"x" * 5_000_000)
    result = tools.run("read_file", path="f")
    assert result["truncated"] is True
    assert len(result["content"]) == 2 * 1024 * 1024


def test_a_page_of_long_lines_ends_at_a_whole_line(tools: Operations) -> None:
    (tools.workspace / "f").write_bytes((b"x" * 999_999 + b"\n") * 4)
    result = tools.run("read_file", path="f")
    assert (result["end_line"], result["truncated"]) == (2, True)


def test_refuses_what_is_no_text(tools: Operations) -> None:
    (tools.workspace / "b").write_bytes(b"\x7fELF\0\0")
    result = tools.run("read_file", path="b")
    assert (result["error"], result["size"]) == ("BINARY_FILE", 6)


@pytest.mark.parametrize(
    ("media_type", "content"),
    [
        ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0"),
        ("image/jpeg", b"\xff\xd8\xff\xe0\0\x10JFIF\0"),
        ("image/gif", b"GIF89a\0\0"),
        ("image/webp", b"RIFF\0\0\0\0WEBPVP8 "),
    ],
)
def test_a_picture_is_no_text_and_comes_beside_the_refusal(
    tools: Operations, media_type: str, content: bytes
) -> None:
    (tools.workspace / "p").write_bytes(content)
    result = tools.run("read_file", path="p")
    data = base64.b64encode(content).decode()
    assert result["error"] == "BINARY_FILE"
    assert result["images"] == [{"media_type": media_type, "data": data}]


@pytest.mark.parametrize(
    "content", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0" * 1024 * 1024, b"RIFF\0\0\0\0WAVE"]
)
def test_what_is_too_large_or_no_picture_does_not_come(tools: Operations, content: bytes) -> None:
    (tools.workspace / "p").write_bytes(content)
    result = tools.run("read_file", path="p")
    assert (result["error"], "images" in result) == ("BINARY_FILE", False)


def test_refuses_a_file_that_is_too_large(tools: Operations) -> None:
    with (tools.workspace / "huge").open("wb") as file:
        file.truncate(60 * 1024 * 1024)
    assert tools.code("read_file", path="huge") == "FILE_TOO_LARGE"


def test_never_waits_for_a_fifo(tools: Operations) -> None:
    os.mkfifo(tools.workspace / "fifo")
    assert tools.code("read_file", path="fifo") == "NOT_A_FILE"
    assert tools.code("write_file", path="fifo", content="") == "NOT_A_FILE"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("none", "FILE_NOT_FOUND"),
        ("d", "IS_A_DIRECTORY"),
        ("", "IS_A_DIRECTORY"),
        ("a/b/c", "FILE_NOT_FOUND"),
        ("f/x", "NOT_A_DIRECTORY"),
        ("a\x00b", "VALIDATION_ERROR"),
    ],
)
def test_names_what_is_wrong_with_a_path(tools: Operations, path: str, code: str) -> None:
    (tools.workspace / "d").mkdir()
    (tools.workspace / "f").touch()
    assert tools.code("read_file", path=path) == code


def test_writes_a_new_file_with_its_folders(tools: Operations) -> None:
    result = tools.run("write_file", path="a/b/c.txt", content="1\n2\n\udcff")
    assert (tools.workspace / "a/b/c.txt").read_bytes() == b"1\n2\n\xff"
    assert (result["is_new_file"], result["lines_added"], result["lines_removed"]) == (True, 3, 0)
    assert result["paths"] == ["a/b/c.txt"]


def test_replaces_a_file_and_keeps_its_mode(tools: Operations) -> None:
    file = tools.workspace / "run.sh"
    file.write_text("a\nb\nc\nd\n")
    file.chmod(0o755)
    result = tools.run("write_file", path="run.sh", content="a\nX\nc\nY\nd\n")
    assert (result["is_new_file"], result["lines_added"], result["lines_removed"]) == (False, 2, 1)
    assert stat.S_IMODE(file.stat().st_mode) == 0o755
    assert [p.name for p in tools.workspace.iterdir()] == ["run.sh"]


def test_a_failed_write_leaves_the_old_file(tools: Operations) -> None:
    (tools.workspace / "f").write_text("old")
    assert tools.code("write_file", path="f", content="\ud800") == "VALIDATION_ERROR"
    assert tools.code("write_file", path="f/", content="x") == "IS_A_DIRECTORY"
    assert (tools.workspace / "f").read_text() == "old"


def test_counts_changes_of_large_files_without_a_matcher(tools: Operations) -> None:
    (tools.workspace / "f").write_text("".join(f"{n}\n" for n in range(5000)))
    changed = "".join(f"{n}!\n" for n in range(5000))
    result = tools.run("write_file", path="f", content=changed)
    assert (result["lines_added"], result["lines_removed"]) == (5000, 5000)


def test_deletes_a_file(tools: Operations) -> None:
    (tools.workspace / "f").touch()
    assert tools.run("delete_file", path="f")["was_already_deleted"] is False
    assert not (tools.workspace / "f").exists()


@pytest.mark.parametrize("path", ["f", "no/such/folder/f"])
def test_deleting_a_missing_file_is_a_success(tools: Operations, path: str) -> None:
    result = tools.run("delete_file", path=path)
    assert (result["success"], result["was_already_deleted"]) == (True, True)


def test_deletes_a_link_and_not_its_target(tools: Operations) -> None:
    (tools.workspace / "target").touch()
    (tools.workspace / "link").symlink_to("target")
    tools.run("delete_file", path="link")
    assert [p.name for p in tools.workspace.iterdir()] == ["target"]


def test_deletes_no_folder(tools: Operations) -> None:
    (tools.workspace / "d").mkdir()
    assert tools.code("delete_file", path="d") == "IS_A_DIRECTORY"
    assert tools.code("delete_file", path=".") == "IS_A_DIRECTORY"


@pytest.mark.parametrize("op", ["read_file", "write_file", "search_replace", "delete_file"])
@pytest.mark.parametrize(
    "path",
    ["../secret", "d/../../secret", "out/secret", "file", "/etc/passwd", "d/up/secret", "chain"],
)
def test_nothing_leads_out_of_the_workspace(tools: Operations, op: str, path: str) -> None:
    outside = tools.workspace.parent
    (outside / "secret").write_text("secret\n")
    (tools.workspace / "d").mkdir()
    (tools.workspace / "out").symlink_to(outside)
    (tools.workspace / "file").symlink_to(outside / "secret")
    (tools.workspace / "d/up").symlink_to("../..")
    (tools.workspace / "chain").symlink_to("d/up/secret")
    args = {"content": "x", "old_string": "secret", "new_string": "x"}
    if op == "delete_file" and path in {"file", "chain"}:
        tools.run(op, path=path)  # the link itself lies inside
    else:
        result = tools.run(op, path=path, **args)
        assert result["error"] == "PATH_OUTSIDE_WORKSPACE"
        assert str(tools.workspace) in result["message"]
    assert (outside / "secret").read_text() == "secret\n"


def test_follows_links_that_stay_inside(tools: Operations) -> None:
    (tools.workspace / "d").mkdir()
    (tools.workspace / "d/f").write_text("x")
    (tools.workspace / "relative").symlink_to("d/../d/f")
    (tools.workspace / "absolute").symlink_to(tools.workspace / "d/f")
    assert tools.run("read_file", path="relative")["path"] == "d/f"
    assert tools.run("read_file", path="absolute")["content"] == "x"
    assert tools.run("read_file", path=str(tools.workspace / "d/f"))["content"] == "x"
    assert tools.run("write_file", path="relative", content="y")["paths"] == ["d/f"]
    assert (tools.workspace / "relative").is_symlink()


def test_links_in_a_circle_are_refused(tools: Operations) -> None:
    (tools.workspace / "a").symlink_to("b")
    (tools.workspace / "b").symlink_to("a")
    assert tools.code("read_file", path="a") == "VALIDATION_ERROR"


def test_a_workspace_reached_through_a_link_takes_both_its_names(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "f").write_text("x")
    (tmp_path / "link").symlink_to(real)
    operations = Operations(tmp_path / "link")
    assert operations.run("read_file", path=str(real / "f"))["success"]
    assert operations.run("read_file", path=str(tmp_path / "link/f"))["success"]
    operations.room.close()


def test_read_only_refuses_to_write(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    operations = Operations(tmp_path, is_read_only=True)
    for op in ("write_file", "delete_file", "search_replace"):
        args = {"path": "f", "content": "y", "old_string": "x", "new_string": "y"}
        assert operations.code(op, **args) == "READ_ONLY"
    assert operations.run("read_file", path="f")["content"] == "x"
    operations.room.close()


def test_leaves_no_descriptor_open(tools: Operations) -> None:
    (tools.workspace / "f").write_text("x")
    tools.run("read_file", path="f")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("f", "none", "../x", "f/x", "a/b", "/etc/passwd", "a\x00b", "\ud800"):
        for op in ("read_file", "delete_file", "list_directory", "grep_search"):
            tools.run(op, path=path, pattern="x")
        tools.run("search_files", query="f")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_an_unknown_operation_is_a_result(tools: Operations) -> None:
    assert tools.code("format_disk") == "UNKNOWN_OPERATION"


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("read_file", {}),
        ("read_file", {"path": 7}),
        ("read_file", {"path": "f", "start_line": "1"}),
        ("read_file", {"path": "\ud800"}),
        ("execute_command", {"command": "  "}),
        ("execute_command", {"command": "x" * 130_000}),
        ("execute_command", {"command": "true", "timeout_s": -1}),
        ("execute_command", {"command": "true", "background": "yes"}),
        ("execute_command", {"command": "true", "env": {"A=": "x"}}),
        ("grep_search", {"pattern": ""}),
        ("search_files", {"query": ""}),
        ("codebase_search", {"query": "?!"}),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    tools: Operations, op: str, args: dict[str, object]
) -> None:
    assert tools.code(op, **args) == "VALIDATION_ERROR"


def test_the_workspace_itself_is_no_file_to_write(tools: Operations) -> None:
    assert tools.code("write_file", path=".", content="x") == "IS_A_DIRECTORY"


def test_a_write_that_fails_at_its_last_step_leaves_no_trace(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tools.workspace / "f").write_text("old")

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    tools.code("write_file", path="f", content="new")
    assert [path.name for path in tools.workspace.iterdir()] == ["f"]
    assert (tools.workspace / "f").read_text() == "old"
