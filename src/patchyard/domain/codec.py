"""Records to JSON and back, by their annotations. Knows no particular record."""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from patchyard.domain.errors import JournalBroken

Convert = Callable[[Any], Any]
T = TypeVar("T")
PLAIN = frozenset({str, int, bool, float})  # as JSON has them


def to_json(value: Any) -> Any:
    """Return `value` (a record, an enum, a collection of such) as plain JSON values."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _record_to_json(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (Sequence, set, frozenset)):
        return [to_json(item) for item in value]
    raise TypeError(f"no JSON form for {type(value).__name__}")


def _record_to_json(record: Any) -> dict[str, Any]:
    """Leave out what has its default: events stay small and old readers stay right."""
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


def from_json(record: type[T], body: Any) -> T:
    """Build `record` from what `to_json` returned. Unknown keys are passed over.

    Raises JournalBroken naming the record and the field that does not fit.
    """
    if type(body) is not dict and not isinstance(body, Mapping):  # the latter takes its time
        raise JournalBroken(f"{record.__name__} is not an object in the journal")
    values = {}
    shape: Any = record
    for name, plain, convert in _converters(shape):
        if name not in body:
            continue
        value = body[name]
        if type(value) is plain:  # most are, and a journal has many of them
            values[name] = value
            continue
        try:
            values[name] = convert(value)
        except (TypeError, ValueError, AttributeError) as error:
            raise JournalBroken(f"{record.__name__}.{name} does not fit: {error}") from error
    try:
        return record(**values)
    except TypeError as error:
        raise JournalBroken(f"{record.__name__} lacks a field: {error}") from error


@functools.cache
def _converters(record: Any) -> tuple[tuple[str, type | None, Convert], ...]:
    """Return for each field its name, the type that needs no conversion, and the conversion."""
    hints = typing.get_type_hints(record)
    return tuple(
        (f.name, hint if hint in PLAIN else None, _converter(hint))
        for f in dataclasses.fields(record)
        for hint in [hints[f.name]]
    )


def _converter(hint: Any) -> Convert:
    origin = typing.get_origin(hint)
    if origin in {types.UnionType, typing.Union}:
        return _optional(hint)
    if origin is tuple:
        inner = _converter(typing.get_args(hint)[0])
        return lambda value: tuple(inner(item) for item in _listed(value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = _converter(typing.get_args(hint)[1])
        return lambda value: {key: inner(item) for key, item in value.items()}
    return _scalar_converter(hint)


def _scalar_converter(hint: Any) -> Convert:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return functools.partial(from_json, hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if hint in {str, int, bool}:
        return functools.partial(_exactly, hint)
    return float if hint is float else _as_is


def _optional(hint: Any) -> Convert:
    inner = [arg for arg in typing.get_args(hint) if arg is not types.NoneType]
    convert = _converter(inner[0]) if len(inner) == 1 else _as_is
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


__all__ = ["from_json", "to_json"]
