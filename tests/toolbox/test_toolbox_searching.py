import os
import sqlite3
from collections.abc import Iterator

import pytest

from patchyard.toolbox import grep, ranking
from patchyard.toolbox.globs import Glob, split_patterns
from patchyard.toolbox.operations import begin
from toolboxes import Operations

WAYS = [
    pytest.param(
        "ripgrep",
        marks=pytest.mark.service("ripgrep"),
    ),
    "python",
]


@pytest.fixture(params=WAYS)
def grepping(
    request: pytest.FixtureRequest, tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> Operations:
    if request.param == "python":
        monkeypatch.setattr(grep, "find_ripgrep", lambda _path: "")
    return tools


@pytest.fixture(params=["fts5", "counted"])
def ranked(
    request: pytest.FixtureRequest, tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Operations]:
    if request.param == "counted":

        def missing(_database: str) -> None:
            raise sqlite3.OperationalError("no such module: fts5")

        monkeypatch.setattr(sqlite3, "connect", missing)
    yield tools
    assert isinstance(tools.room.index, ranking.Index)
    wanted = ranking.Counted if request.param == "counted" else ranking.FullText
    assert isinstance(tools.room.index._store, wanted)


def plant(tools: Operations, **files: str | bytes) -> None:
    for name, content in files.items():
        path = tools.workspace / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def found(tools: Operations, pattern: str, **args: object) -> list[str]:
    result = tools.run("grep_search", pattern=pattern, **args)
    assert result["success"], result
    assert result["match_count"] == len(result["detailed_matches"])
    matches: list[str] = result["matches"]
    return matches


def test_lists_folders_first(tools: Operations) -> None:
    plant(tools, b="x", z__f="x", a="x")
    (tools.workspace / "link").symlink_to("a")
    os.mkfifo(tools.workspace / "fifo")
    result = tools.run("list_directory")
    rows = [(row["name"], row["type"]) for row in result["contents"]]
    assert rows == [
        ("z", "directory"),
        ("a", "file"),
        ("b", "file"),
        ("fifo", "special"),
        ("link", "link"),
    ]
    assert (result["path"], result["total_count"]) == (".", 5)
    assert tools.run("list_directory", path="z")["path"] == "z"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("none", "DIRECTORY_NOT_FOUND"),
        ("no/ne", "DIRECTORY_NOT_FOUND"),
        ("f", "NOT_A_DIRECTORY"),
        ("..", "PATH_OUTSIDE_WORKSPACE"),
        ("/", "PATH_OUTSIDE_WORKSPACE"),
    ],
)
def test_lists_only_folders_of_the_workspace(tools: Operations, path: str, code: str) -> None:
    plant(tools, f="")
    assert tools.code("list_directory", path=path) == code


def test_finds_files_by_part_of_the_name_or_pattern(tools: Operations) -> None:
    files = {"src__Main.py": "", "src__deep__main_test.py": "", "README.md": ""}
    plant(tools, **files, node_modules__main__index="", x__node_modules__main="")
    plant(tools, **{".git__main": ""})
    both = ["src/Main.py", "src/deep/main_test.py"]
    for query in ("main", "*.py", "src/**", "**/*.py", "src/"):
        assert tools.run("search_files", query=query)["files"] == both
    assert tools.run("search_files", query="deep/main")["files"] == both[1:]
    assert tools.run("search_files", query="{README,x}*")["count"] == 1
    result = tools.run("search_files", query="nothing")
    assert (result["success"], result["files"], result["truncated"]) == (True, [], False)


def test_finds_a_hundred_files_and_says_that_there_are_more(tools: Operations) -> None:
    for number in range(101):
        (tools.workspace / f"file{number}").touch()
    result = tools.run("search_files", query="file")
    assert (result["count"], result["truncated"]) == (100, True)


def test_greps_lines(grepping: Operations) -> None:
    plant(grepping, b__x="one\n  Two\nthree", a="two", **{"a-b": "TWO\n"})
    assert found(grepping, "two") == ["a:1:two", "a-b:1:TWO", "b/x:2:Two"]
    assert found(grepping, "two", case_sensitive=True) == ["a:1:two"]
    assert found(grepping, "t[hw]", path="b") == ["b/x:2:Two", "b/x:3:three"]
    assert found(grepping, "o", path="b/x") == ["b/x:1:one", "b/x:2:Two"]
    row = grepping.run("grep_search", pattern="three")["detailed_matches"][0]
    assert row == {"file": "b/x", "line_number": 3, "content": "three"}


def test_no_match_is_a_success(grepping: Operations) -> None:
    plant(grepping, a="x")
    assert found(grepping, "y") == []


@pytest.mark.parametrize(
    ("include", "exclude", "files"),
    [
        ("*.py", "", ["a.py", "s/b.py"]),
        ("*.{py,js}", "", ["a.py", "s/b.py", "s/c.js"]),
        ("*.js, *.md", "", ["d.md", "s/c.js"]),
        ("", "s", ["a.py", "d.md"]),
        ("s/**", "*.js", ["s/b.py"]),
        ("!*.py", "", []),
    ],
)
def test_greps_the_files_asked_for(
    grepping: Operations, include: str, exclude: str, files: list[str]
) -> None:
    plant(grepping, **{"a.py": "x", "s__b.py": "x", "s__c.js": "x", "d.md": "x"})
    matches = found(grepping, "x", include_pattern=include, exclude_pattern=exclude)
    assert [match.partition(":")[0] for match in matches] == files


def test_greps_past_what_is_no_text_and_what_nobody_searches(grepping: Operations) -> None:
    plant(grepping, binary=b"x\n\0", latin=b"x\xff\n", node_modules__m="x", **{".git__c": "x"})
    plant(grepping, **{".hidden": "x", ".gitignore": "latin\n"})
    (grepping.workspace / "link").symlink_to("latin")
    (grepping.workspace / "out").symlink_to("/etc")
    assert found(grepping, "x") == [".hidden:1:x", "latin:1:x\udcff"]


def test_greps_names_that_are_no_utf8_or_look_like_options(grepping: Operations) -> None:
    plant(grepping, **{"-e": "x", "new\nline": "x", "sp ace": "x"})
    (grepping.workspace / os.fsdecode(b"\xff")).write_text("x")
    assert found(grepping, "x") == ["-e:1:x", "new\nline:1:x", "sp ace:1:x", "\udcff:1:x"]


def test_a_pattern_is_never_shell_or_option(grepping: Operations) -> None:
    plant(grepping, a="--files\n$(touch pwned)\n")
    assert found(grepping, "--files") == ["a:1:--files"]
    assert found(grepping, r"\$\(touch pwned\)") == ["a:2:$(touch pwned)"]
    found(grepping, "'; touch pwned; '")
    assert [p.name for p in grepping.workspace.iterdir()] == ["a"]


def test_greps_at_most_fifty_lines_a_file_and_cuts_long_ones(grepping: Operations) -> None:
    plant(grepping, a="x\n" * 80, b="x" + "y" * 1000)
    matches = grepping.run("grep_search", pattern="x")["detailed_matches"]
    assert len(matches) == 51
    assert len(matches[-1]["content"]) == 250


def test_greps_a_thousand_lines_in_all(grepping: Operations) -> None:
    for number in range(30):
        plant(grepping, **{f"f{number:02}": "x\n" * 50})
    result = grepping.run("grep_search", pattern="x")
    assert (result["match_count"], result["truncated"]) == (1000, True)


def test_expressions_that_only_python_knows_still_work(grepping: Operations) -> None:
    plant(grepping, a="foobar\nfoobaz\n")
    assert found(grepping, r"foo(?!bar)") == ["a:2:foobaz"]


def test_an_invalid_expression_is_named(grepping: Operations) -> None:
    assert grepping.code("grep_search", pattern="(") == "INVALID_PATTERN"


def test_greps_only_inside(grepping: Operations) -> None:
    assert grepping.code("grep_search", pattern="x", path="..") == "PATH_OUTSIDE_WORKSPACE"
    assert grepping.code("grep_search", pattern="x", path="none") == "FILE_NOT_FOUND"


def test_an_expression_that_backtracks_for_ever_is_ended(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "find_ripgrep", lambda _path: "")
    monkeypatch.setattr(grep, "ONE_FILE_S", 0.05)
    plant(tools, a="a" * 40 + "b")
    assert tools.code("grep_search", pattern="(a+)+$") == "TIMEOUT"


def test_ripgrep_is_found_on_the_path_and_only_by_absolute_folders(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "SYSTEM_PLACES", "")
    plant(tools, rg="")
    (tools.workspace / "rg").chmod(0o755)
    assert grep.find_ripgrep("relative:.") == ""
    assert grep.find_ripgrep(f"x:{tools.workspace}") == f"{tools.workspace}/rg"


def test_ranks_pieces_by_the_words_they_share(ranked: Operations) -> None:
    plant(
        ranked,
        **{
            "invoice.py": "\n" * 45 + "def totalAmount(invoice):\n    return sum(invoice.lines)\n",
            "other.py": "def amount():\n    pass\n",
            "none.py": "nothing of interest\n",
        },
    )
    result = ranked.run("codebase_search", query="total amount of an invoice")
    first = result["results"][0]
    assert (first["path"], first["line_start"], first["line_end"]) == ("invoice.py", 41, 48)
    assert "totalAmount" in first["content"]
    assert (first["relevance"], first["id"]) == (1.0, "invoice.py:41")
    assert {row["path"] for row in result["results"]} >= {"invoice.py", "other.py"}
    assert "invoice" in result["search_terms"]


def test_ranking_sees_what_changed(ranked: Operations) -> None:
    plant(ranked, a="zebra\n", b="zebra\n")
    assert len(ranked.run("codebase_search", query="zebra")["results"]) == 2
    plant(ranked, a="giraffe and more\n")
    (ranked.workspace / "b").unlink()
    assert ranked.run("codebase_search", query="zebra")["results"] == []
    assert ranked.run("codebase_search", query="giraffe")["results"][0]["path"] == "a"


def test_ranking_takes_any_query_and_any_bytes(ranked: Operations) -> None:
    plant(ranked, a=b"caf\xc3\xa9 \xff OR\n", b=b"\0binary caf\xc3\xa9")
    (ranked.workspace / os.fsdecode(b"\xfe")).write_text("caf\u00e9")
    results = ranked.run("codebase_search", query='"caf\u00e9" OR NEAR( * ^')["results"]
    assert [row["path"] for row in results] == ["a", "\udcfe"]


def test_ranking_stops_at_its_bounds_and_says_so(
    ranked: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "MAX_BYTES", 10)
    plant(ranked, a="zebra zebra zebra\n", b="zebra\n")
    result = ranked.run("codebase_search", query="zebra")
    assert (result["truncated"], len(result["results"])) == (True, 1)


def test_a_search_can_be_cancelled_between_its_steps(tools: Operations) -> None:
    plant(tools, a="x")
    call = tools.call()
    begin(tools.room, call, "search_files", {"query": "a"})
    call.cancel()
    assert b"CANCELLED" in (call.frame or b"")
    tools.room.loop.later(0.0, lambda: None)
    tools.room.loop.turn()
    assert tools.room.loop._steps == []


@pytest.mark.parametrize(
    ("pattern", "path", "is_match"),
    [
        ("*.py", "a/b.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/c.py", "a/c.py", True),
        ("/a", "b/a", False),
        ("./a/", "a/x", True),
        ("[!ab].c", "c.c", True),
        ("[!ab].c", "a.c", False),
        ("[a.c", "[a.c", True),
        ("?.c", "/.c", False),
        ("x{a,b{c,d}}", "xbd", True),
        ("a.c", "abc", False),
    ],
)
def test_patterns_mean_what_ripgrep_means(pattern: str, path: str, *, is_match: bool) -> None:
    assert Glob(pattern).matches(path) is is_match


def test_a_list_of_patterns_parts_at_commas_outside_braces() -> None:
    assert len(split_patterns("*.{a,b}, c,")) == 2
