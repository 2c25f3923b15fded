"""Records to JSON and back, by their annotations. Knows no particular record.

What is shown leaves out what has its default (`to_json`). What is kept is written in full
(`in_full`) and read by a table of what left-out fields meant (`Meanings`), not by the defaults of
today.
"""

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from patchyard.domain.errors import JournalBroken
from patchyard.domain.records import of_fields
from patchyard.toolbox.wire import is_deeper

Convert = Callable[[Any], Any]
_Defaults = tuple[Mapping[str, Any], tuple[tuple[str, Callable[[], Any]], ...]]  # values, makers
T = TypeVar("T")
_DECODER = json.JSONDecoder()
PLAIN = frozenset({str, int, bool, float})  # as JSON has them


class Meanings:
    """What fields mean that a record leaves out, as JSON values by record and field.

    A record is named as its class is, or `module.Class` where two classes have one name.
    """

    def __init__(self, table: Mapping[str, Mapping[str, Any]]) -> None:
        self._table = table

    def of(self, record: type) -> Mapping[str, Any]:
        """Return what is known of `record`: a JSON value by field."""
        module = record.__module__.rpartition(".")[2]
        own = self._table.get(f"{module}.{record.__name__}")
        return self._table.get(record.__name__, {}) if own is None else own


def to_json(value: Any) -> Any:
    """Return `value` (a record, an enum, a collection of such) as plain JSON values.

    Fields that have their default are left out. Raises TypeError for what has no JSON form.
    """
    return _to_json(value, _record_to_json)


def in_full(value: Any) -> Any:
    """As `to_json`, with every field of each record: what is kept must not hang on defaults."""
    return _to_json(value, _record_in_full)


def _to_json(value: Any, said: Callable[[Any], Any]) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return said(value)
    if isinstance(value, Mapping):
        return {str(key): _to_json(item, said) for key, item in value.items()}
    if isinstance(value, (Sequence, set, frozenset)):
        return [_to_json(item, said) for item in value]
    raise TypeError(f"no JSON form for {type(value).__name__}")


def _record_in_full(record: Any) -> dict[str, Any]:
    shape: Any = type(record)
    return {name: in_full(getattr(record, name)) for name in _names(shape)}


@functools.cache
def _names(record: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(record))


def _record_to_json(record: Any) -> dict[str, Any]:
    body = {}
    shape: Any = type(record)
    for name, default in _defaults(shape):
        value = getattr(record, name)
        if default is not dataclasses.MISSING and value == default:
            continue
        body[name] = to_json(value)
    return body


@functools.cache
def _defaults(record: Any) -> tuple[tuple[str, Any], ...]:
    pairs = []
    for field in dataclasses.fields(record):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        pairs.append((field.name, default))
    return tuple(pairs)


def from_text(text: str, what: str, *parts: object) -> Mapping[str, Any]:
    """Return the JSON object in `text`.

    Raises JournalBroken when it is none, naming `what` with `parts` in the place of its braces.
    """
    try:
        body, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise JournalBroken(f"{what.format(*parts)} cannot be read: {error}") from error
    if not isinstance(body, dict) or end != len(text):
        raise JournalBroken(f"{what.format(*parts)} is not an object")
    return body


@dataclasses.dataclass(frozen=True)
class _Shape:
    """What `from_json` knows of one kind of record."""

    fields: Mapping[str, tuple[type | None, Convert]]  # type that needs no conversion; conversion
    defaults: Mapping[str, Any]
    factories: tuple[tuple[str, Callable[[], Any]], ...]  # of defaults that are no record's own
    is_plain: bool  # its fields are all that making one sets


def from_json(record: type[T], body: Any, meanings: Meanings | None = None) -> T:
    """Build `record` from what `to_json` or `in_full` returned. Unknown keys are passed over.

    A field that is left out has its default of today, or with `meanings` what those say.
    Raises JournalBroken naming the record and the field that does not fit, or is not known.
    """
    if type(body) is not dict and not isinstance(body, Mapping):  # the latter takes its time
        raise JournalBroken(f"{record.__name__} is not an object in the journal")
    kind: Any = record
    shape = _shape(kind, meanings)
    fields, values = shape.fields, dict(shape.defaults)
    for name, value in body.items():
        if name not in fields:
            continue
        plain, convert = fields[name]
        if type(value) is plain:  # most are, and a journal has many of them
            values[name] = value
            continue
        try:
            values[name] = convert(value)
        except (TypeError, ValueError, AttributeError) as error:
            raise JournalBroken(f"{record.__name__}.{name} does not fit: {error}") from error
    for name, make in shape.factories:
        if name not in values:
            values[name] = make()
    if len(values) != len(fields):
        missing = ", ".join(sorted(fields.keys() - values.keys()))
        raise JournalBroken(f"{record.__name__} lacks a field: {missing}")
    return of_fields(record, values) if shape.is_plain else record(**values)


@functools.cache
def _shape(record: Any, meanings: Meanings | None) -> _Shape:
    hints = typing.get_type_hints(record)
    fields = {
        field.name: (hint if hint in PLAIN else None, _converter(hint, meanings))
        for field in dataclasses.fields(record)
        for hint in [hints[field.name]]
    }
    defaults, factories = (
        _of_today(record) if meanings is None else _of_then(meanings.of(record), fields)
    )
    return _Shape(
        fields=fields,
        defaults=defaults,
        factories=factories,
        is_plain=not hasattr(record, "__post_init__") and not hasattr(record, "__slots__"),
    )


def _of_today(record: Any) -> _Defaults:
    fields, missing = dataclasses.fields(record), dataclasses.MISSING
    return (
        {f.name: f.default for f in fields if f.default is not missing},
        tuple((f.name, f.default_factory) for f in fields if f.default_factory is not missing),
    )


def _of_then(
    known: Mapping[str, Any], fields: Mapping[str, tuple[type | None, Convert]]
) -> _Defaults:
    """Return what JSON values stand for, in the words of the same table; each record its own."""
    made = {
        name: functools.partial(fields[name][1], value)
        for name, value in known.items()
        if name in fields
    }
    values = {name: make() for name, make in made.items()}
    shared = {name: value for name, value in values.items() if not isinstance(value, dict)}
    return shared, tuple((name, make) for name, make in made.items() if name not in shared)


def _converter(hint: Any, meanings: Meanings | None) -> Convert:
    origin = typing.get_origin(hint)
    if origin in {types.UnionType, typing.Union}:
        return _optional(hint, meanings)
    if origin is tuple:
        inner = _converter(typing.get_args(hint)[0], meanings)
        return lambda value: tuple(inner(item) for item in _listed(value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = _converter(typing.get_args(hint)[1], meanings)
        return lambda value: {key: inner(item) for key, item in value.items()}
    return _scalar_converter(hint, meanings)


def _scalar_converter(hint: Any, meanings: Meanings | None) -> Convert:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return functools.partial(from_json, hint, meanings=meanings)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if hint in {str, int, bool}:
        return functools.partial(_exactly, hint)
    return float if hint is float else _as_is


def _optional(hint: Any, meanings: Meanings | None) -> Convert:
    inner = [arg for arg in typing.get_args(hint) if arg is not types.NoneType]
    convert = _converter(inner[0], meanings) if len(inner) == 1 else _as_is
    return lambda value: None if value is None else convert(value)


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _as_is(value: Any) -> Any:
    return value


__all__ = ["Meanings", "from_json", "from_text", "in_full", "is_deeper", "to_json"]
