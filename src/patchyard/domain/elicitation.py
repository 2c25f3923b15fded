"""What an MCP server asks of a person (elicitation), read within bounds. Pure.

Its schema is flat by the protocol: an object of texts, numbers, switches and choices.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.domain.mcp import cleaned

METHOD = "elicitation/create"
ACCEPT, DECLINE, CANCEL = "accept", "decline", "cancel"  # actions of an answer, MCP 2025-06-18
MOST_FIELDS = 20
MOST_CHOICES = 50
SHOWN_CHARS = 2_000  # of the question
FIELD_CHARS = 200  # of a field's name, description, and each choice
ANSWER_CHARS = 10_000
MOST_NUMBER = 1e300  # so that every program reads it
KINDS = ("boolean", "integer", "number", "string")
YES, NO = frozenset({"true", "y", "yes"}), frozenset({"false", "n", "no"})


@dataclass(frozen=True, kw_only=True)
class Field:
    """One thing that is asked for."""

    name: str
    kind: str  # of KINDS
    shown: str  # for people: what it is for
    choices: tuple[str, ...] = ()
    is_required: bool = False


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a server asks."""

    server: str
    text: str
    fields: tuple[Field, ...]


def question_of(server: str, params: Any) -> Question | None:
    """Return the question that a request's parameters put; None where they put none."""
    body = params if isinstance(params, Mapping) else {}
    text, schema = body.get("message"), body.get("requestedSchema")
    rows = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(text, str) or not isinstance(rows, Mapping) or len(rows) > MOST_FIELDS:
        return None
    required = schema.get("required") if isinstance(schema, Mapping) else ()
    needed = required if isinstance(required, list) else []
    fields = [_field(name, row, is_required=name in needed) for name, row in rows.items()]
    found = [each for each in fields if each is not None]
    if len(found) < len(fields):
        return None
    return Question(server=server, text=cleaned(text)[:SHOWN_CHARS], fields=tuple(found))


def _field(name: Any, row: Any, *, is_required: bool) -> Field | None:
    if not isinstance(row, Mapping) or row.get("type") not in KINDS or len(str(name)) > FIELD_CHARS:
        return None
    choices = row.get("enum", [])
    is_choice = isinstance(choices, list) and all(
        isinstance(each, str) and len(each) <= FIELD_CHARS for each in choices
    )
    if not is_choice or len(choices) > MOST_CHOICES:
        return None
    said = row.get("description") or row.get("title") or ""
    return Field(
        name=str(name),
        kind=str(row["type"]),
        shown=cleaned(said)[:FIELD_CHARS] if isinstance(said, str) else "",
        choices=tuple(choices),
        is_required=is_required,
    )


def value_of(field: Field, line: str) -> str | float | bool:
    """Return what a typed line means for a field. Raises ValueError that says what is wanted."""
    text = line.strip()[:ANSWER_CHARS]
    if field.choices and text not in field.choices:
        raise ValueError(f"one of {', '.join(field.choices)}")
    if field.kind == "boolean":
        if text.lower() not in YES | NO:
            raise ValueError("yes or no")
        return text.lower() in YES
    if field.kind == "string":
        return text
    try:
        number = int(text) if field.kind == "integer" else float(text)
    except ValueError as error:
        raise ValueError("a whole number" if field.kind == "integer" else "a number") from error
    if not -MOST_NUMBER <= number <= MOST_NUMBER:
        raise ValueError("a number")
    return number


__all__ = [
    "ACCEPT",
    "ANSWER_CHARS",
    "CANCEL",
    "DECLINE",
    "FIELD_CHARS",
    "KINDS",
    "METHOD",
    "MOST_CHOICES",
    "MOST_FIELDS",
    "MOST_NUMBER",
    "NO",
    "SHOWN_CHARS",
    "YES",
    "Field",
    "Question",
    "question_of",
    "value_of",
]
