"""The lines of a patch, as git itself writes it."""

import subprocess
from pathlib import Path

import pytest

from patchyard.domain.patch_lines import patch_lines
from patchyard.domain.silencing import silencing


def patch_of(folder: Path, before: dict[str, bytes], after: dict[str, bytes]) -> bytes:
    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout

    git("init", "-q")
    trees = []
    for files in (before, after):
        git("rm", "-rqf", "--cached", "--ignore-unmatch", ".")
        for name, content in files.items():
            place = folder / name
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(content)
            git("add", "-f", "--", f":(literal){name}")
        trees.append(git("write-tree").decode().strip())
    return git("diff-tree", "-p", "-r", "-M", "--binary", "--full-index", *trees)


NAMES = ["a.py", "with space.py", 'q"uote.py', "tab\t.py", "größe.py", "sub/new\nline.py"]


@pytest.mark.parametrize("name", NAMES)
def test_added_and_removed_lines_have_their_numbers(tmp_path: Path, name: str) -> None:
    before = b"".join(b"line %d\n" % n for n in range(30))
    after = before.replace(b"line 3\n", b"changed\nmore\n").replace(b"line 20\n", b"")
    found = patch_lines(patch_of(tmp_path, {name: before}, {name: after}))
    assert found.added == {name: {4: "changed", 5: "more"}}
    assert found.removed == {name: {4: "line 3", 21: "line 20"}}


def test_lines_that_look_like_heads_are_lines(tmp_path: Path) -> None:
    before = b"-- a/other.py\nx\n"
    after = b"++ b/evil.py\n@@ -1 +1 @@\ndiff --git a/x b/x\nx"
    found = patch_lines(patch_of(tmp_path, {"a": before}, {"a": after}))
    assert found.removed == {"a": {1: "-- a/other.py", 2: "x"}}
    assert list(found.added) == ["a"]
    assert list(found.added["a"].values()) == [
        *("++ b/evil.py", "@@ -1 +1 @@", "diff --git a/x b/x", "x")
    ]


def test_new_deleted_renamed_and_binary_files(tmp_path: Path) -> None:
    long = b"".join(b"%d\n" % n for n in range(50))
    before = {"gone": b"x\n", "old": long, "bin": b"\0\1"}
    after = {"new": b"y\nz\n", "moved": long.replace(b"7\n", b"seven\n", 1), "bin": b"\0\2\n+x\n"}
    found = patch_lines(patch_of(tmp_path, before, after))
    assert found.added == {"new": {1: "y", 2: "z"}, "moved": {8: "seven"}}
    assert found.removed == {"gone": {1: "x"}, "old": {8: "7"}}


def test_a_patch_that_is_cut_ends_quietly() -> None:
    cut = b"--- a/x\n+++ b/x\n@@ -1,5 +1,9 @@\n+one"
    assert patch_lines(cut).added == {"x": {1: "one"}}


def test_added_lines_that_silence_a_tool_are_named() -> None:
    added = {
        "b.py": {3: "x = eval(y)  # noqa: S307", 4: "# a note"},
        "a.ts": {1: "// eslint-disable-next-line", 9: "// @ts-ignore"},
        "t.py": {2: "@pytest.mark.skip(reason='later')"},
        "d.rs": {1: "#![allow(clippy::all)]", 2: "#[ignore]", 3: "#[test]"},
        "e_test.go": {1: 't.Skip("later")', 2: "//go:build ignore", 3: "t.Run(one)"},
        "F.java": {1: "@Disabled", 2: "@Test"},
    }
    assert silencing(added) == (
        *("F.java:1", "a.ts:1", "a.ts:9", "b.py:3", "d.rs:1", "d.rs:2"),
        *("e_test.go:1", "e_test.go:2", "t.py:2"),
    )


@pytest.mark.parametrize(
    "line",
    [
        *("import os  # NOQA", "# flake8: noqa", "# ruff: file-ignore[F401]", "# ruff: ignore[E5]"),
        *('# mypy: disable-error-code="return-value"', "# pyright: basic", "@no_type_check"),
        *("pytestmark = pytest.mark.skip", "pytest.skip('later')", "raise SkipTest", "t.Skip()"),
        *("#![allow(unused)]", "#[ignore]", "it.skip('adds', () => {})", "@Disabled"),
        *("os._exit(0)", "sys.exit()", "sys.exit(0)", "os.execvp('true', [])", "process.exit()"),
        *("process.exitCode = 0", "syscall.Exit(0)", "os.Exit(0)", "std::process::exit(0);"),
        *("System.exit(0);", "Runtime.getRuntime().halt(0)", "import _pytest", "unittest.case"),
    ],
)
def test_every_way_to_silence_a_tool_or_skip_a_test_is_named(line: str) -> None:
    assert silencing({"a": {1: line}}) == ("a:1",)


@pytest.mark.parametrize(
    "line",
    [
        "# pyright: strict",
        "# mypy: strict",
        "rows.skip(1)",
        "# about noqas",
        "format.SkipX",
        "sys.exit(main())",
        "sys.exit(1)",
        "process.exit(1)",
        "os.Exit(1)",
        "before_exit(0)",
    ],
)
def test_a_line_that_silences_nothing_is_not_named(line: str) -> None:
    assert silencing({"a": {1: line}}) == ()
