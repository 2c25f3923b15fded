"""Events as an earlier version stored them: each is still read, and read the same.

A shape that changes gets a new file beside the old one, never an edit of it.
"""

import dataclasses
import json
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from patchyard.domain.codec import in_full, to_json
from patchyard.domain.events import SCHEMA, TYPES
from patchyard.domain.holdings import TYPES as HELD
from patchyard.domain.meanings import FORMATS, restored
from patchyard.engine.rows import Vocabulary, to_row
from samples_of_version import roots

SAMPLES = sorted((Path(__file__).parent / "samples").glob("events-*.jsonl"))
ROWS = [
    json.loads(line) for path in SAMPLES for line in path.read_text().splitlines() if line.strip()
]
DEFAULTS = sorted((Path(__file__).parent / "samples").glob("defaults-*.jsonl"))
MEANT = [json.loads(line) for path in DEFAULTS for line in path.read_text().splitlines()]
RECORDS = dict(roots())
EVENTS: Mapping[str, Any] = {**TYPES, **HELD}
#: Defaults of today that are others than those of 0.1 to 0.6, as `Record.field`.
CHANGED = frozenset({"TaskAnalysis.complexity", "TaskAnalysis.kind"})


def test_every_kind_of_event_has_a_stored_sample() -> None:
    assert {row["type"] for row in ROWS} == set(TYPES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['type']}-{row['schema']}")
def test_a_stored_event_is_read_without_loss(row: dict[str, Any]) -> None:
    record = restored(TYPES[row["type"]], row["body"], row["schema"])
    assert to_json(record) == row["body"]


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6"])
def test_what_a_version_left_out_is_read_as_it_was_meant(version: str) -> None:
    rows = [row for row in MEANT if row["version"] == version]
    assert {"PlanCreated", "ProjectSaved", "Limits", "Turn"} <= {row["type"] for row in rows}
    for row in rows:
        read = in_full(restored(RECORDS[row["type"]], row["body"], row["schema"]))
        assert dict(_otherwise(row["means"], read, row["type"])) == {}


def _otherwise(meant: Any, read: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield what a version meant and this one reads otherwise; further fields are its own."""
    if isinstance(meant, dict) and isinstance(read, dict):
        for key, value in meant.items():
            yield from _otherwise(value, read.get(key, "not there"), f"{place}.{key}")
    elif isinstance(meant, list) and isinstance(read, list) and len(meant) == len(read):
        for one, other in zip(meant, read, strict=True):
            yield from _otherwise(one, other, place)
    elif meant != read:
        yield place, (meant, read)


def _records() -> Mapping[type, None]:
    """Return each record that a journal may hold."""
    found: dict[type, None] = {}

    def look(hint: Any) -> None:
        if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint not in found:
            found[hint] = None
            for inner in typing.get_type_hints(hint).values():
                look(inner)
        for inner in typing.get_args(hint):
            look(inner)

    for record in RECORDS.values():
        look(record)
    return found


@pytest.mark.parametrize("record", _records(), ids=lambda record: str(record.__name__))
def test_a_default_of_today_is_the_one_that_is_meant_or_is_said_to_be_another(record: Any) -> None:
    known = FORMATS[SCHEMA].of(record)
    needed: dict[str, Any] = {}
    unknown, other = set(), set()
    for field in dataclasses.fields(record):
        today = field.default
        if field.default_factory is not dataclasses.MISSING:
            today = field.default_factory()
        if today is dataclasses.MISSING:
            needed[field.name] = None
        elif field.name not in known:
            unknown.add(field.name)
        elif in_full(today) != _read(record, field.name, known):
            other.add(f"{record.__name__}.{field.name}")
    assert unknown == set(), "say in domain/meanings.py what plans without the field mean"
    assert other == {each for each in CHANGED if each.startswith(f"{record.__name__}.")}
    assert known.keys() & needed.keys() == set()


def _read(record: Any, name: str, known: Mapping[str, Any]) -> Any:
    hint = typing.get_type_hints(record)[name]
    one = dataclasses.make_dataclass("One", [(name, hint)], frozen=True, kw_only=True)
    return in_full(getattr(restored(one, {name: known[name]}), name))


@pytest.mark.parametrize(
    "row", [row for row in MEANT if row["version"] == "0.6" and row["type"] in EVENTS],
    ids=lambda row: str(row["type"]),
)  # fmt: skip
def test_an_event_is_written_with_every_field(row: dict[str, Any]) -> None:
    event = restored(EVENTS[row["type"]], row["body"])
    written = to_row(event, Vocabulary(types=EVENTS, schema=SCHEMA), 0.0, {}).body
    assert dict(_otherwise(row["means"], written, row["type"])) == {}
