import pytest

from toolboxes import Operations

CODE = "def f(x):\n    if x:\n        return 1\n    return 2\n"


@pytest.fixture
def code(tools: Operations) -> Operations:
    (tools.workspace / "f.py").write_text(CODE)
    return tools


def test_replaces_what_occurs_once(code: Operations) -> None:
    args = {"old_string": "return 2", "new_string": "y = 3\n    return y"}
    result = code.run("search_replace", path="f.py", **args)
    assert (code.workspace / "f.py").read_text() == CODE.replace("return 2", "y = 3\n    return y")
    assert (result["lines_added"], result["lines_removed"]) == (2, 1)
    assert (result["occurrences"], result["old_length"], result["new_length"]) == (1, 8, 18)
    assert (result["is_new_file"], result["paths"]) == (False, ["f.py"])


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("", "x", "EMPTY_OLD_STRING"),
        ("x", "x", "IDENTICAL_STRINGS"),
        ("none", "", "TEXT_NOT_FOUND"),
        ("return", "", "TEXT_NOT_UNIQUE"),
    ],
)
def test_refuses_by_name(code: Operations, old: str, new: str, error: str) -> None:
    args = {"old_string": old, "new_string": new}
    assert code.code("search_replace", path="f.py", **args) == error
    assert (code.workspace / "f.py").read_text() == CODE


def test_a_missing_file_is_named(code: Operations) -> None:
    args = {"old_string": "a", "new_string": "b"}
    assert code.code("search_replace", path="none", **args) == "FILE_NOT_FOUND"


def test_places_that_overlap_are_not_unique(tools: Operations) -> None:
    (tools.workspace / "f").write_text("aaa")
    result = tools.run("search_replace", path="f", old_string="aa", new_string="b")
    assert (result["error"], result["occurrences"]) == ("TEXT_NOT_UNIQUE", 2)


@pytest.mark.parametrize(
    ("old", "cause", "nearest"),
    [
        ("2|     if x:\n3|         return 1", "line numbers", "2:     if x:"),
        ("     2\u2192    if x:\n     3\u2192        return 1", "line numbers", "2:     if x:"),
        ("if x:\n  return 1", "white space", "2:     if x:"),
        ("\tif x:", "white space", "2:     if x:"),
        ("\n\n\tif x:\n\n", "white space", "2:     if x:"),
        ("x :\n return  1", "white space", "2:     if x:"),
        ("x :\n return", "white space", "2:     if x:"),
        ("x :", "white space", "2:     if x:"),
        ("        return 10", "nearest is line 3", "3:         return 1"),
    ],
)
def test_says_why_a_text_is_not_found(code: Operations, old: str, cause: str, nearest: str) -> None:
    result = code.run("search_replace", path="f.py", old_string=old, new_string="")
    assert result["error"] == "TEXT_NOT_FOUND"
    assert cause in result["message"]
    assert result["nearest"][0] == nearest


def test_names_line_ends_that_differ(tools: Operations) -> None:
    (tools.workspace / "f").write_bytes(b"a\r\nb\r\n")
    result = tools.run("search_replace", path="f", old_string="a\nb", new_string="c")
    assert "CRLF" in result["message"]


def test_says_when_it_was_done_already(code: Operations) -> None:
    args = {"old_string": "no such thing", "new_string": "return 2"}
    result = code.run("search_replace", path="f.py", **args)
    assert "there already" in result["message"]


def test_a_text_like_nothing_has_no_nearest_line(code: Operations) -> None:
    result = code.run("search_replace", path="f.py", old_string="\u00e4\u00f6\u00fc", new_string="")
    assert result["nearest"] == []


def test_nothing_but_white_space_has_no_cause(tools: Operations) -> None:
    (tools.workspace / "f").write_bytes(b"a\r\nb\r\n")
    result = tools.run("search_replace", path="f", old_string=" \n \n", new_string="c")
    assert result["error"] == "TEXT_NOT_FOUND"
    assert "white space" not in result["message"]
    other = tools.run("search_replace", path="f", old_string="b\na", new_string="c")
    assert "CRLF" not in other["message"]
