"""Events as an earlier version stored them: each is still read, and read the same.

A shape that changes gets a new file beside the old one, never an edit of it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from patchyard.domain.codec import from_json, to_json
from patchyard.domain.events import TYPES

SAMPLES = sorted((Path(__file__).parent / "samples").glob("events-*.jsonl"))
ROWS = [
    json.loads(line) for path in SAMPLES for line in path.read_text().splitlines() if line.strip()
]


def test_every_kind_of_event_has_a_stored_sample() -> None:
    assert {row["type"] for row in ROWS} == set(TYPES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['type']}-{row['schema']}")
def test_a_stored_event_is_read_without_loss(row: dict[str, Any]) -> None:
    record = from_json(TYPES[row["type"]], row["body"])
    assert to_json(record) == row["body"]
