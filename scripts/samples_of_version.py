"""Prints what events and other journalled records of one version mean that write no default.

`PYTHONPATH=CHECKOUT/src samples_of_version.py VERSION`: one JSON object a line, for
tests/domain/samples/defaults-VERSION.jsonl. `body` is a record with only what that version demands
(and once more with one of each record in it), `means` is what that version read it as, in full. It
uses only what every version has.
"""

import dataclasses
import functools
import importlib
import json
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

__all__ = ["bare", "in_full", "roots"]

#: Journalled within events, in fields that name no record; not every version has each of them.
INNER = {
    "patchyard.contracts.actor": ("Turn",),
    "patchyard.contracts.handover": ("Receipt",),
    "patchyard.contracts.workspace": ("WorkspaceRef",),
    "patchyard.domain.analysis": ("Guide", "Symbol"),
    "patchyard.domain.changeset": ("ChangeSet",),
    "patchyard.domain.design_record": ("DesignRecord",),
    "patchyard.domain.environment": ("Limits",),
    "patchyard.domain.messages": ("Thoughts",),
    "patchyard.domain.review": ("Review",),
    "patchyard.domain.review_coverage": ("ChangedCoverage",),
    "patchyard.domain.traffic": ("Attempt",),
}
DUMMIES: Mapping[Any, Any] = {str: "x", int: 1, float: 1.0, bool: False}


def roots() -> Iterator[tuple[str, type]]:
    """Yield all that is journalled by name: events of plans, of the home, and what lies in them."""
    for module in ("patchyard.domain.events", "patchyard.domain.holdings"):
        yield from sorted(importlib.import_module(module).TYPES.items())
    for module, names in INNER.items():
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue
        yield from ((name, getattr(found, name)) for name in names if hasattr(found, name))


def bare(record: Any, within: Sequence[Any] = (), *, is_deep: bool = False) -> dict[str, Any]:
    """Return the JSON of a record that has no more than it must; or one of each record in it too.

    `within` are the records that it lies in: none of them is made once more.
    """
    hints = typing.get_type_hints(record)
    body = {}
    for field in dataclasses.fields(record):
        is_needed = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        hint = hints[field.name]
        if is_needed or (is_deep and _holds_record(hint) and not _holds(hint, within)):
            inner = functools.partial(bare, within=(*within, record), is_deep=is_deep)
            body[field.name] = _dummy(hint, inner)
    return body


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for each in typing.get_args(hint):
        yield from _parts(each)


def _holds_record(hint: Any) -> bool:
    return any(isinstance(each, type) and dataclasses.is_dataclass(each) for each in _parts(hint))


def _holds(hint: Any, within: Sequence[Any]) -> bool:
    return any(each in within for each in _parts(hint))


def _dummy(hint: Any, made: Callable[[Any], Any]) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return made(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint)).value
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"x": _dummy(inner[1], made)} if _holds_record(inner[1]) else {}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [_dummy(inner[0], made)] if _holds_record(inner[0]) else []
    if (inner and not isinstance(origin, type)) or type(None) in inner:
        kept = [each for each in inner if each is not type(None)]
        return _dummy(kept[0], made) if kept else None
    return DUMMIES.get(hint)


def in_full(value: Any) -> Any:
    """Return a record as JSON with every field of it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: in_full(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): in_full(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [in_full(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def main() -> None:
    """Print the samples of the version that is on the path."""
    codec = importlib.import_module("patchyard.domain.codec")
    for name, record in roots():
        shallow, deep = bare(record), bare(record, is_deep=True)
        for body in [shallow] if shallow == deep else [shallow, deep]:
            means = in_full(codec.from_json(record, body))
            row = {"version": sys.argv[1], "type": name, "schema": 1, "body": body, "means": means}
            sys.stdout.write(f"{json.dumps(row, sort_keys=True, separators=(',', ':'))}\n")


if __name__ == "__main__":
    main()
