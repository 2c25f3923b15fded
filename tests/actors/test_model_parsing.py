"""Calls as sloppy models write them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.clients.written_calls import find_calls, parse_arguments

PATH = {"path": "a.py"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ('{"path": "a.py"}', ""),
        ('  {"path": "a.py"}\n', ""),
        ('"{\\"path\\": \\"a.py\\"}"', "JSON inside a string"),
        (json.dumps(json.dumps(json.dumps(PATH))), "JSON inside a string"),
        ('[{"path": "a.py"}]', "list of one"),
        ("{'path': 'a.py'}", "Python literal"),
        ('{"path": "a.py",}', "comma too many"),
        ('{"path": "a.py"\n,\n}', "comma too many"),
        ('```json\n{"path": "a.py"}\n```', "code fence"),
        ("```\n{'path': 'a.py'}\n```", "code fence"),
        ('Here you go: {"path": "a.py"} - enjoy', "text around"),
        ('{"path": "a.py"}\n}', "text around"),
    ],
)
def test_what_has_one_meaning_is_read_and_named(text: str, mended: str) -> None:
    parsed = parse_arguments(text)
    assert parsed.arguments == PATH
    assert mended in parsed.mended
    assert bool(parsed.mended) is bool(mended)


@pytest.mark.parametrize(
    "value", [f"0x{'f' * 5000}", "b'x'", "{1, 2}", "...", "1j", "{(1, 2): 3}", "[0o1, b'']"]
)
def test_a_literal_that_no_json_can_say_is_no_use(value: str) -> None:
    parsed = parse_arguments(f"{{'a': {value}}}")
    assert parsed.arguments is None
    assert parsed.problem
    written = f"<tool_call>{{'name': 'read', 'arguments': {value}}}</tool_call>"
    assert find_calls(written, ["read"]) == []


@pytest.mark.parametrize("text", ["", "  ", "null", "None", "{}"])
def test_nothing_means_no_arguments(text: str) -> None:
    assert parse_arguments(text).arguments == {}


def test_raw_line_breaks_in_a_text_are_taken() -> None:
    parsed = parse_arguments('{"content": "one\n\ttwo"}')
    assert parsed.arguments == {"content": "one\n\ttwo"}


def test_commas_and_quotes_inside_texts_stay() -> None:
    parsed = parse_arguments('{"content": "a \\",} b", "list": [1, 2,],}')
    assert parsed.arguments == {"content": 'a ",} b', "list": [1, 2]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"path": "a.py', "ends in the middle"),
        ('{"path": "a.py"', "ends in the middle"),
        ('{"path":', "ends in the middle"),
        ('{"path": "a"}{"path": "b"}', "one call for each"),
        ("[1, 2]", "no object"),
        ("42", "no object"),
        ("path=a.py", "write one JSON object"),
        ("{" * 100_000, "no JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' * 300 + "1" + "}" * 300, "nested too deeply"),
        (f'{{"a": {"9" * 5000}}}', "too many digits"),
        ("{'a': " * 500, "no JSON object"),
        ("{'a': __import__('os')}", "at character 1"),
        ("<xml/>", "write one JSON object"),
    ],
)
def test_what_has_no_single_meaning_is_refused_with_the_reason(text: str, words: str) -> None:
    parsed = parse_arguments(text)
    assert parsed.arguments is None
    assert words in parsed.problem
    assert len(parsed.problem) < 400


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5))
def test_any_object_comes_through_unchanged(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    assert parse_arguments(text).arguments == value
    assert parse_arguments(json.dumps(text)).arguments == value


@given(st.text(max_size=200))
def test_no_text_whatever_raises(text: str) -> None:
    parsed = parse_arguments(text)
    assert (parsed.arguments is None) is bool(parsed.problem)


CALL = '{"name": "read_file", "arguments": {"path": "a.py"}}'


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"<tool_call>{CALL}</tool_call>",
        f"Let me look.\n<tool_call>\n{CALL}\n</tool_call>\nDone.",
        f"```json\n{CALL}\n```",
        '{"function": {"name": "read_file", "arguments": {"path": "a.py"}}}',
        '{"tool": "read_file", "parameters": {"path": "a.py"}}',
        '{"function": "read_file", "input": {"path": "a.py"}}',
        '{"name": "read_file", "arguments": "{\\"path\\": \\"a.py\\"}"}',
    ],
)
def test_a_call_in_the_text_is_found(text: str) -> None:
    [(name, arguments)] = find_calls(text, ["read_file"])
    assert name == "read_file"
    assert parse_arguments(arguments).arguments == PATH


def test_fences_in_the_texts_of_a_call_do_not_end_it() -> None:
    inner = {"path": "a.md", "content": "```sh\nls\n```\n{x}"}
    call = json.dumps({"name": "write_file", "arguments": inner}, indent=1)
    found = find_calls(f"So:\n```json\n{call}\n```\nand\n```\n\n{CALL}  ```", [*TWO])
    assert [name for name, _ in found] == [*TWO]
    assert json.loads(found[0][1]) == inner


TWO = ("write_file", "read_file")


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" + "\n" * 100_000,
        "<tool_call>" * 50_000,
        "<tool_call></tool_call>" * 50_000,
        "```json\n" + " " * 100_000,
        "```\n{" * 50_000,
        "```\n{" + "}\n\n" * 50_000,
    ],
    ids=["line breaks", "tags", "closed tags", "blanks", "fences", "ends"],
)
def test_no_text_takes_more_time_than_its_length(text: str) -> None:
    assert find_calls(text, ["read_file"]) == []


@pytest.mark.parametrize(
    "text",
    [
        "I will call read_file now.",
        '{"path": "a.py"}',
        '{"name": "rm_rf", "arguments": {}}',
        f"<tool_call>{CALL}</tool_call><tool_call>nonsense</tool_call>",
        '```json\n{"name": "my-package", "version": 1}\n```',
        f"The call {CALL} would be right.",
    ],
)
def test_text_that_is_no_call_is_left_alone(text: str) -> None:
    assert find_calls(text, ["read_file"]) == []
