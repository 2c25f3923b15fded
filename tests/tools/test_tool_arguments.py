"""What a sloppy model writes as arguments: mended where it has one meaning, else refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.errors import UsageError
from patchyard.toolbox.operations import PLACES
from patchyard.tools.arguments import fit, tidy_path
from patchyard.tools.toolset import BESIDES, NINE, toolset

WORKSPACE = "/home/me/project"
TOOLS = toolset(WORKSPACE)


def prepared(name: str, **arguments: Any) -> dict[str, Any]:
    op, args = TOOLS[name].prepare(arguments)
    assert op == name
    return dict(args)


def test_the_nine_are_the_nine() -> None:
    assert sorted(NINE) == [
        *("codebase_search", "delete_file", "execute_command", "grep_search", "list_directory"),
        *("read_file", "search_files", "search_replace", "write_file"),
    ]
    assert sorted(BESIDES) == ["job_kill", "job_output", "read_output"]


def test_every_tool_asks_for_an_operation_that_the_toolbox_has() -> None:
    assert set(TOOLS) - {"read_output"} <= set(PLACES)  # D+11; read_output is the engine's own


def test_every_tool_describes_each_argument_as_a_schema() -> None:
    for name, tool in TOOLS.items():
        assert tool.spec.name == name
        assert tool.spec.description.endswith(".")
        schema = tool.spec.parameters
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])
        for argument in schema["properties"].values():
            assert argument["description"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("src/a.py", "src/a.py"),
        ("./src/a.py", "src/a.py"),
        (".//src/a.py", "src/a.py"),
        (f"{WORKSPACE}/src/a.py", "src/a.py"),
        (WORKSPACE, "."),
        (f"{WORKSPACE}/", "."),
        (f"file://{WORKSPACE}/a%20b.py", "a b.py"),
        (f"file://localhost{WORKSPACE}/a.py", "a.py"),
        ("`src/a.py`", "src/a.py"),
        ('"src/a.py"', "src/a.py"),
        ("src/a.py\n", "src/a.py"),
        ("", "."),
        ("/etc/passwd", "/etc/passwd"),
        (f"{WORKSPACE}-other/a.py", f"{WORKSPACE}-other/a.py"),
        ("../a.py", "../a.py"),
        (" a", " a"),
    ],
)
def test_a_path_is_made_relative_when_it_lies_inside(written: str, meant: str) -> None:
    assert tidy_path(written, workspace=WORKSPACE) == meant


@pytest.mark.parametrize(
    ("name", "arguments", "meant"),
    [
        ("read_file", {"file_path": "a"}, {"path": "a"}),
        ("read_file", {"filePath": "a", "startLine": "3"}, {"path": "a", "start_line": 3}),
        ("read_file", {"path": "a", "end_line": 9.0}, {"path": "a", "end_line": 9}),
        ("read_file", {"path": "a", "start_line": None}, {"path": "a"}),
        ("read_file", {"arguments": {"path": "a"}}, {"path": "a"}),
        ("read_file", {"input": '{"path": "a"}'}, {"path": "a"}),
        ("read_file", {"path": "a", "explanation": "to see"}, {"path": "a"}),
        ("write_file", {"path": "a", "text": "x"}, {"path": "a", "content": "x"}),
        ("write_file", {"path": "a", "content": ["x", "y"]}, {"path": "a", "content": "x\ny"}),
        ("write_file", {"path": "a", "content": 12}, {"path": "a", "content": "12"}),
        (
            "search_replace",
            {"path": "a", "old_str": "x", "new_str": ""},
            {"path": "a", "old_string": "x", "new_string": ""},
        ),
        ("execute_command", {"cmd": ["ls", "a b"]}, {"command": "ls 'a b'"}),
        (
            "execute_command",
            {"command": "x", "timeout": "60s", "is_background": "True"},
            {"command": "x", "timeout_s": 60.0, "background": True},
        ),
        ("execute_command", {"command": "x", "cwd": WORKSPACE}, {"command": "x", "cwd": "."}),
        (
            "grep_search",
            {"regex": "x", "include": "*.py"},
            {"pattern": "x", "include_pattern": "*.py"},
        ),
        ("search_files", {"pattern": "*.py"}, {"query": "*.py"}),
        ("search_files", {"globPattern": "*.py"}, {"query": "*.py"}),
        ("list_directory", {}, {}),
        ("list_directory", {"directory": "src"}, {"path": "src"}),
        ("read_file", {"path": ["a"], "shouldReadEntireFile": True}, {"path": "a"}),
        ("write_file", {"path": "a", "content": "", "isNewFile": 1}, {"path": "a", "content": ""}),
        ("job_kill", {"id": "01X"}, {"job_id": "01X"}),
        ("read_output", {"id": "01X", "offset": "0"}, {"call_id": "01X", "offset": 0}),
    ],
)
def test_arguments_with_one_meaning_are_mended(
    name: str, arguments: dict[str, Any], meant: dict[str, Any]
) -> None:
    assert prepared(name, **arguments) == meant


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read_file", {}, "read_file needs `path`"),
        ("search_replace", {"path": "a"}, "needs `old_string`, `new_string`"),
        ("read_file", {"path": ["a", 1]}, "'path' must be a text, not list"),
        ("read_file", {"path": ["a", "b"]}, "'path' must be a text, not list"),
        ("read_file", {"path": "a", "start_line": "two"}, "must be a whole number"),
        ("read_file", {"path": "a", "start_line": True}, "must be a whole number"),
        ("read_file", {"path": "a", "strt_line": 1}, "did you mean 'start_line'"),
        ("read_file", {"path": "a", "recursive": True}, "has no argument 'recursive'"),
        ("write_file", {"path": "a", "content": {"json": 1}}, "must be a text, not dict"),
        ("execute_command", {"command": "x", "timeout_s": "NaN"}, "must be a number"),
        ("execute_command", {"command": "x", "background": "maybe"}, "must be true or false"),
        ("read_file", {"arguments": "{broken"}, "has no argument 'arguments'"),
        ("read_file", {"arguments": "[" * 100_000}, "has no argument 'arguments'"),
        ("read_file", {"args": '{"path": ' * 300 + "1" + "}" * 300}, "no argument 'args'"),
    ],
)
def test_what_has_no_single_meaning_is_refused_with_what_to_do(
    name: str, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        prepared(name, **arguments)
    assert words in caught.value.message
    assert caught.value.hint


@given(
    st.sampled_from(sorted(TOOLS)),
    st.dictionaries(
        st.sampled_from(["path", "content", "command", "pattern", "query", "offset", "x"])
        | st.text(max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=5,
        ),
        max_size=5,
    ),
)
def test_no_arguments_whatever_raise_anything_but_a_usage_error(
    name: str, arguments: dict[str, Any]
) -> None:
    try:
        fitted = fit(TOOLS[name].spec, arguments, workspace=WORKSPACE)
    except UsageError:
        return
    properties = TOOLS[name].spec.parameters["properties"]
    assert set(TOOLS[name].spec.parameters["required"]) <= set(fitted) <= set(properties)
