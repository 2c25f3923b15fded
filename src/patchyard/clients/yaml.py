"""YAML files as plain values, with the line and column of every part.

Strict on purpose: no duplicate keys, no anchors, no tags, keys are text, sizes are bounded.
"""

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from patchyard.domain.errors import UsageError, quoted
from patchyard.domain.faults import Fault, Place

FILE_BYTES = 1_000_000
DEEPEST = 40
MOST_PARTS = 50_000
MOST_DIGITS = 40  # characters of one number; Python writes out none of more than 4,300 digits

STANDARD = "tag:yaml.org,2002:"
PLAIN = frozenset(f"{STANDARD}{kind}" for kind in ("bool", "float", "int"))
TEXTS = frozenset({"str", "timestamp", "value", "merge"})  # tags that are read as text

IsText = Callable[[Place], bool]


@dataclass(frozen=True, kw_only=True)
class Document:
    """What a file says, and where it says it."""

    name: str  # as shown in messages: the path
    value: Any  # mappings, lists, text, numbers, booleans, None
    marks: Mapping[Place, tuple[int, int]] = field(default_factory=dict)  # line, column; from 1

    def refused(self, fault: Fault) -> UsageError:
        """Return the error for a fault in this document: file, line and column in front."""
        place = fault.place
        while place and place not in self.marks:
            place = place[:-1]
        line, column = self.marks.get(place, (1, 1))
        error = UsageError(
            f"{self.name}:{line}:{column}: {fault.message}",
            hint=fault.hint,
            details={**fault.details, "file": self.name, "line": line, "column": column},
        )
        error.code = "bad_file"
        return error


def read_yaml(path: Path, *, name: str = "", is_text: IsText | None = None) -> Document:
    """Read the file at `path`. Raises UsageError with file, line and column."""
    shown = name or str(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{shown} is not a file")
            data = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}") from error
    return parse_yaml(data, name=shown, is_text=is_text)


def parse_yaml(data: bytes | str, *, name: str, is_text: IsText | None = None) -> Document:
    """Return what `data` says. An empty document is None. Raises UsageError with the place.

    Numbers and booleans at a place where `is_text` are kept as they are written: `1.10`.
    """
    from ruamel.yaml import YAML  # noqa: PLC0415 - loaded when there is a file to read
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415 - likewise

    if len(data) > FILE_BYTES:
        raise UsageError(f"{name} is larger than {FILE_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        node = YAML(typ="safe", pure=True).compose(text)
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = error.problem or error.context or "cannot be read"
        raise UsageError(f"{name}:{line}:{column}: {problem}", hint="mend the YAML") from error
    except (YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{name}: this is not YAML that can be read: {error}") from error
    return _Builder(name, is_text or (lambda _: False)).document(node)


class _Builder:
    """Makes plain values of parsed nodes."""

    def __init__(self, name: str, is_text: IsText) -> None:
        self._name = name
        self._is_text = is_text
        self._marks: dict[Place, tuple[int, int]] = {}
        self._seen: set[int] = set()

    def document(self, node: Any) -> Document:
        """Return the document under `node`."""
        try:
            value = None if node is None else self._value(node, ())
        except Fault as fault:
            raise Document(name=self._name, value=None, marks=self._marks).refused(fault) from fault
        return Document(name=self._name, value=value, marks=self._marks)

    def _value(self, node: Any, place: Place) -> Any:
        self._marks.setdefault(place, (node.start_mark.line + 1, node.start_mark.column + 1))
        if id(node) in self._seen:
            raise Fault(place, "anchors and aliases are not read here", hint="write it out")
        self._seen.add(id(node))
        if len(self._seen) > MOST_PARTS or len(place) > DEEPEST:
            raise Fault(place, "the file is too large or too deep")
        kind = type(node).__name__
        if kind == "ScalarNode":
            if str(node.tag) in PLAIN and self._is_text(place):
                return str(node.value)
            return _scalar(str(node.tag), str(node.value), place)
        if kind == "SequenceNode":
            return [self._value(item, (*place, n)) for n, item in enumerate(node.value)]
        return self._mapping(node, place)

    def _mapping(self, node: Any, place: Place) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key, value in node.value:
            here = (key.start_mark.line + 1, key.start_mark.column + 1)
            if type(key).__name__ != "ScalarNode" or not str(key.tag).startswith(STANDARD):
                raise Fault(place, "a key must be text")
            name = str(key.value)
            inner = (*place, name)
            if name in built:
                first = self._marks[inner][0]
                self._marks[inner] = here
                raise Fault(inner, f"the key {name!r} stands twice, first in line {first}")
            self._marks[inner] = here
            built[name] = self._value(value, inner)
        return built


def _scalar(tag: str, text: str, place: Place) -> Any:
    kind = tag.removeprefix(STANDARD)
    if not tag.startswith(STANDARD) or kind not in {*TEXTS, "null", "bool", "int", "float"}:
        raise Fault(place, f"the tag {tag} is not read here")
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind in {"int", "float"}:
        return _number(kind, text.replace("_", ""), place)
    return text


def _number(kind: str, text: str, place: Place) -> int | float:
    if len(text) > MOST_DIGITS:
        raise Fault(
            place,
            f"{quoted(text)} is longer than a number may be: {MOST_DIGITS} characters",
            hint="write a shorter one, or in quotes where it is text",
        )
    try:
        if kind == "float":
            return float(text.replace(".inf", "inf").replace(".nan", "nan"))
        plain = text.lower().lstrip("+-")
        base = 16 if plain.startswith("0x") else 8 if plain.startswith("0o") else 10
        return int(text, base)
    except ValueError as error:
        raise Fault(place, f"{text!r} is no number") from error


def flow(value: Any) -> str:
    """Return plain data as one line of YAML, as it can be written in a file."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - as above

    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style, writer.allow_unicode, writer.width = True, True, 2**31
    writer.representer.sort_base_mapping_type_on_output = False
    written = StringIO()
    writer.dump(value, written)
    return written.getvalue().strip()


__all__ = [
    "DEEPEST",
    "FILE_BYTES",
    "MOST_DIGITS",
    "MOST_PARTS",
    "PLAIN",
    "STANDARD",
    "TEXTS",
    "Document",
    "IsText",
    "flow",
    "parse_yaml",
    "read_yaml",
]
