"""Reads tool calls as sloppy models write them: mends what has one meaning, refuses the rest.

Knows no tool and no provider; each mending has a name, so that the model can be told of it.
"""

import ast
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.domain.codec import is_deeper
from patchyard.domain.tooling import DEEPEST

_STRICT = json.JSONDecoder()
_LOOSE = json.JSONDecoder(strict=False)  # takes raw line breaks in strings
TOO_DEEP = "it is nested too deeply"
OPENED, CLOSED = "<tool_call>", "</tool_call>"  # around a call in a text
# What a model thinks aloud before it answers, where its server does not part the two.
THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?(?:</think(?:ing)?>\s*|\Z)", re.DOTALL)
LITERAL_LIMIT = 200_000  # characters that are tried as a Python literal


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """Arguments of one call, or why there are none."""

    arguments: Mapping[str, Any] | None = None
    mended: str = ""  # what was wrong and has been mended, empty when nothing was
    problem: str = ""  # why it could not be read


def parse_arguments(text: str) -> Parsed:
    """Return the arguments that `text` can only mean."""
    plain = text.strip()
    if not plain or plain in {"null", "None"}:
        return Parsed(arguments={})
    for mending, read in _READERS:
        found = read(plain)
        if found is None:
            continue
        if is_deeper(found, DEEPEST):
            return Parsed(problem=f"the arguments are no use ({TOO_DEEP})")
        return Parsed(arguments=found, mended=mending)
    return Parsed(problem=_diagnosis(plain))


def find_calls(text: str, names: Collection[str]) -> list[tuple[str, str]]:
    """Return (name, arguments) of calls that a model wrote into its text, when all are known.

    Forms: `<tool_call>{...}</tool_call>`, a fenced JSON block, or a text that is one JSON object;
    each with `name` (or `tool`, `function`) and `arguments` (or `parameters`, `input`).
    """
    pieces = list(_tagged(text)) or list(_in_fences(text))
    if not pieces and text.strip().startswith("{"):
        pieces = [text]
    calls = [text_call(piece) for piece in pieces]
    known = [call for call in calls if call is not None and call[0] in names]
    return known if known and len(known) == len(calls) else []


def _tagged(text: str) -> Iterator[str]:
    """Yield what stands between tags; a text without end takes no more time than its length."""
    place = 0
    while (opened := text.find(OPENED, place)) >= 0:
        closed = text.find(CLOSED, opened)
        if closed < 0:
            return
        yield text[opened + len(OPENED) : closed].strip()
        place = closed + len(CLOSED)


def _in_fences(text: str) -> Iterator[str]:
    """Yield each object that fills a code fence; fences in its texts do not end it."""
    place = 0
    while opened := _OPENED_FENCE.search(text, place):
        closed = _CLOSED_FENCE.search(text, opened.end())
        if closed is None:
            return
        yield text[opened.end() - 1 : closed.start() + 1]
        place = closed.end()


_OPENED_FENCE = re.compile(r"```(?:json|tool_call|tool)?\s*+(?<=\n)\{")
_CLOSED_FENCE = re.compile(r"\}\s*+```")


def text_call(piece: str) -> tuple[str, str] | None:
    """Return (name, arguments) of one call as a JSON object, None where it is none."""
    parsed = parse_arguments(piece).arguments
    if parsed is None:
        return None
    nested = parsed.get("function")
    source = nested if isinstance(nested, Mapping) else parsed
    name = next((source[k] for k in ("name", "tool", "tool_name") if k in source), nested)
    arguments = next((source[k] for k in ("arguments", "parameters", "input") if k in source), None)
    if not isinstance(name, str) or arguments is None:
        return None
    return name, arguments if isinstance(arguments, str) else json.dumps(arguments)


def _strict(text: str) -> Mapping[str, Any] | None:
    return _as_object(_loads(text))


def _string_of_json(text: str) -> Mapping[str, Any] | None:
    value: Any = text
    for _ in range(3):
        value = _loads(value) if isinstance(value, str) else None
        if isinstance(value, dict):
            return value
    return None


def _list_of_one(text: str) -> Mapping[str, Any] | None:
    value = _loads(text)
    return _as_object(value[0]) if isinstance(value, list) and len(value) == 1 else None


def _raw_line_breaks(text: str) -> Mapping[str, Any] | None:
    return _as_object(_loads(text, is_strict=False))


def _fenced(text: str) -> Mapping[str, Any] | None:
    found = re.fullmatch(r"```[a-z]*\s*\n?(.*?)\n?```", text, re.DOTALL)
    return _lenient(found.group(1).strip()) if found else None


def _surrounded(text: str) -> Mapping[str, Any] | None:
    start = text.find("{")
    if start < 0:
        return None
    try:
        value, end = _LOOSE.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    if "{" in text[end:]:
        return None
    return _as_object(value)


def _without_trailing_commas(text: str) -> Mapping[str, Any] | None:
    return _as_object(_loads(_drop_trailing_commas(text), is_strict=False))


def _python_literal(text: str) -> Mapping[str, Any] | None:
    if len(text) > LITERAL_LIMIT or not text.startswith("{"):
        return None
    try:
        value = _as_object(ast.literal_eval(text))
        json.dumps(value)  # bytes, sets and numbers of thousands of digits are literals, too
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value


def _lenient(text: str) -> Mapping[str, Any] | None:
    for read in (_strict, _raw_line_breaks, _without_trailing_commas, _python_literal):
        found = read(text)
        if found is not None:
            return found
    return None


_READERS: tuple[tuple[str, Callable[[str], Mapping[str, Any] | None]], ...] = (
    ("", _strict),
    ("the arguments were JSON inside a string", _string_of_json),
    ("the arguments were a list of one object", _list_of_one),
    ("a text in the arguments held raw line breaks", _raw_line_breaks),
    ("the arguments stood in a code fence", _fenced),
    ("the arguments had a comma too many", _without_trailing_commas),
    ("the arguments were a Python literal, not JSON", _python_literal),
    ("there was text around the arguments", _surrounded),
)


def _loads(text: str, *, is_strict: bool = True) -> Any:
    try:
        return (_STRICT if is_strict else _LOOSE).decode(text)
    except (ValueError, RecursionError):
        return None


def _as_object(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return value
    return None


def _drop_trailing_commas(text: str) -> str:
    out: list[str] = []
    in_string = is_escaped = False
    for character in text:
        if in_string:
            in_string = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            in_string = True
        elif character in "}]":
            while out and out[-1].isspace():
                out.pop()
            if out and out[-1] == ",":
                out.pop()
        out.append(character)
    return "".join(out)


def _diagnosis(text: str) -> str:
    shown = text if len(text) <= 120 else f"{text[:80]} ... {text[-30:]}"
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos == 0 and text[:1] not in {"{", "["}:
            why = "write one JSON object and nothing else"
        elif error.msg == "Extra data":
            why = "there is more than one object; make one call for each"
        elif error.pos >= len(text) - 1 or error.msg.startswith("Unterminated"):
            why = "the JSON ends in the middle; write less in one call"
        else:
            why = f"{error.msg} at character {error.pos}"
    except RecursionError:
        why = TOO_DEEP
    except ValueError:
        why = "a number has too many digits"
    else:
        why = "it is JSON, but no object"
    return f"the arguments are no JSON object ({why}): {shown}"


__all__ = ["CLOSED", "OPENED", "THOUGHT", "Parsed", "find_calls", "parse_arguments", "text_call"]
