"""What differs of a tool is shown as it was and as it is."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.mcp_differences import SHOWN_LINES, differences


def tool(description: str = "says it", name: str = "echo", **schema: Any) -> str:
    return json.dumps({"name": name, "description": description, "inputSchema": schema})


def test_a_schema_and_a_description_are_shown_before_and_after() -> None:
    old, new = tool(type="object"), tool("says more", type="object", required=["x"])
    (lines,) = differences([old], [new]).values()
    assert {"-says it", "+says more", '+    "required": ['} <= {*lines}
    assert '     "type": "object",' not in lines[:2]


def test_an_added_tool_is_shown_whole_and_a_removed_one_is_only_named() -> None:
    assert differences([tool()], []) == {}
    added = differences([], [tool()])["echo"]
    assert added[1:] == ["+says it", "+{", '+  "inputSchema": {}', "+}"]


def test_few_words_of_a_long_description_are_shown_and_few_lines_of_a_long_schema() -> None:
    words = "word " * 1_000
    (lines,) = differences([tool(words)], [tool(words + "more")]).values()
    assert sum(map(len, lines)) < 400
    many = {f"key{number}": {"type": "string"} for number in range(100)}
    (lines,) = differences([tool()], [tool(properties=many)]).values()
    assert len(lines) == SHOWN_LINES + 1
    assert lines[-1].endswith("more lines")


TEXTS = st.lists(st.one_of(st.text(), st.text().map(tool)))


@given(TEXTS, TEXTS)
def test_whatever_was_held_can_be_compared(old: list[str], new: list[str]) -> None:
    for lines in differences(old, new).values():
        assert len(lines) <= SHOWN_LINES + 1
