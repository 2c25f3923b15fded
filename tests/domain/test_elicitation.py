"""What a server asks of a person: read within bounds, and answered in its own kinds."""

from typing import Any

import pytest

from patchyard.domain.elicitation import Field, Question, question_of, value_of

ROWS = {
    "branch": {"type": "string", "description": "where\x1b[2J to"},
    "size": {"type": "string", "enum": ["s", "m"], "title": "Size"},
    "count": {"type": "integer", "title": 7},
}


def asked(rows: Any = ROWS, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": rows, "required": ["branch"]}
    return {"message": "which\u202e one?", "requestedSchema": schema, **more}


def test_a_question_is_read_without_what_nobody_sees() -> None:
    assert question_of("h", asked()) == Question(
        server="h",
        text="which one?",
        fields=(
            Field(name="branch", kind="string", shown="where[2J to", is_required=True),
            Field(name="size", kind="string", shown="Size", choices=("s", "m")),
            Field(name="count", kind="integer", shown=""),
        ),
    )


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        asked(message=7),
        {"message": "x"},
        asked([]),
        asked({"a": {"type": "object"}}),
        asked({"a": 7}),
        asked({"a" * 300: {"type": "string"}}),
        asked({"a": {"type": "string", "enum": [1]}}),
        asked({"a": {"type": "string", "enum": ["x"] * 51}}),
        asked({"a": {"type": "string", "enum": ["x" * 201]}}),
        asked({f"f{n}": {"type": "string"} for n in range(21)}),
    ],
)
def test_what_puts_no_question_is_none(params: Any) -> None:
    assert question_of("h", params) is None


def field(kind: str, *choices: str) -> Field:
    return Field(name="f", kind=kind, shown="", choices=choices)


@pytest.mark.parametrize(
    ("kind", "line", "value"),
    [
        ("string", " main\n", "main"),
        ("boolean", "Y", True),
        ("boolean", "false", False),
        ("integer", "-3", -3),
        ("number", "1.5", 1.5),
    ],
)
def test_a_line_is_taken_as_the_field_has_it(kind: str, line: str, value: object) -> None:
    assert value_of(field(kind), line) == value


@pytest.mark.parametrize(
    ("asked_for", "line", "wanted"),
    [
        (field("boolean"), "perhaps", "yes or no"),
        (field("integer"), "1.5", "a whole number"),
        (field("number"), "much", "a number"),
        (field("number"), "inf", "a number"),
        (field("number"), "nan", "a number"),
        (field("integer"), "9" * 400, "a number"),
        (field("string", "s", "m"), "l", "one of s, m"),
    ],
)
def test_a_line_that_does_not_fit_is_told_what_would(
    asked_for: Field, line: str, wanted: str
) -> None:
    with pytest.raises(ValueError, match=wanted):
        value_of(asked_for, line)
