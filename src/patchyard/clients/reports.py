"""XML and JSON that somebody else wrote, taken in with limits: no entities, no depth."""

import json
from collections.abc import Callable, Mapping
from typing import Any
from xml.parsers import expat

from patchyard.domain.gate_findings import UnreadableReport
from patchyard.toolbox.wire import loaded

JSON_BYTES = 16 * 1024 * 1024  # it is held whole, at some twenty times its size
MOST_DEPTH = 64
MOST_ELEMENTS = 5_000_000

OnStart = Callable[[str, Mapping[str, str]], None]  # tag, attributes
OnEnd = Callable[[str, str], None]  # tag, the text that stands in it
TEXT_CHARS = 20_000  # kept of an element's text, its end


def read_xml(report: bytes, on_start: OnStart, on_end: OnEnd) -> None:
    """Tell of each element as it begins and ends. Raises UnreadableReport."""
    parser = expat.ParserCreate(namespace_separator=None)
    walk = _Walk(on_start, on_end)
    parser.StartElementHandler = walk.start
    parser.EndElementHandler = walk.end
    parser.CharacterDataHandler = walk.text
    parser.StartDoctypeDeclHandler = _doctype
    parser.EntityDeclHandler = _entity
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(report, True)
    except expat.ExpatError as error:
        raise UnreadableReport(f"it is no XML: {error}") from error
    except (LookupError, ValueError) as error:
        if isinstance(error, UnreadableReport):
            raise
        raise UnreadableReport(f"it is no XML: {error}") from error


class _Walk:
    """Counts what it is told of, and passes it on."""

    def __init__(self, on_start: OnStart, on_end: OnEnd) -> None:
        self._on_start = on_start
        self._on_end = on_end
        self._texts: list[list[str]] = []
        self._elements = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if len(self._texts) >= MOST_DEPTH or self._elements > MOST_ELEMENTS:
            raise UnreadableReport("it is nested too deeply, or holds too much")
        self._texts.append([])
        self._on_start(tag.rpartition(":")[2], attributes)

    def end(self, tag: str) -> None:
        text = "".join(self._texts.pop())[-TEXT_CHARS:]
        self._on_end(tag.rpartition(":")[2], text)

    def text(self, data: str) -> None:
        if self._texts:
            self._texts[-1].append(data)


def _doctype(name: str, _system: str | None, _public: str | None, has_own: int) -> None:
    if has_own:
        raise UnreadableReport(f"it declares things of its own (<!DOCTYPE {name} [...]>)")


def _entity(name: str, *_: Any) -> None:
    raise UnreadableReport(f"it declares the entity {name}")


def read_json(report: bytes) -> Any:
    """Return a JSON document, or a list of those on the lines of one. Raises UnreadableReport."""
    if len(report) > JSON_BYTES:
        raise UnreadableReport(f"it has more than {JSON_BYTES:,} bytes")
    try:
        text = report.decode("utf-8-sig")
        if not text.strip():
            return []
        try:
            return loaded(text)
        except json.JSONDecodeError:
            return [loaded(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise UnreadableReport(f"it is no JSON: {error}") from error


def whole_number(value: object) -> int:
    """Return a line number of a report; 0 for what is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 < value < 10**9 else 0


__all__ = [
    "JSON_BYTES",
    "MOST_DEPTH",
    "MOST_ELEMENTS",
    "OnEnd",
    "OnStart",
    "read_json",
    "read_xml",
    "whole_number",
]
