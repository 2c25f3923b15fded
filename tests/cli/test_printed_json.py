"""What commands print as JSON, written by pieces: the same text as json.dumps writes."""

import json
from typing import Any

import pytest

from patchyard.cli.encoding import PIECE_CHARS, encoded, portable
from patchyard.domain.views import Mapped, held

VALUES: list[Any] = [
    None,
    "a\udcffb",
    {},
    [],
    {"a": {}, "b": [], "c": [1, {"d": [2.5, None]}], "path": "x\udcff"},
    [{"a": 1}, [], "x\ny"],
    {"deep": {"deeper": {"old_path": "\udcff", "x": float("nan"), "lines": "a\nb"}}, "z": True},
]


@pytest.mark.parametrize("indent", [None, 1, 2])
@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_written_as_json_dumps_does(value: Any, indent: int | None) -> None:
    assert "".join(encoded(value, indent=indent)) == json.dumps(portable(value), indent=indent)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_view_is_written_as_the_list_that_it_stands_for(count: int, indent: int | None) -> None:
    value = {"x": {"files": Mapped(lambda n: {"path": f"{n}\udcff", "n": [n]}, range(count))}}
    assert "".join(encoded(value, indent=indent)) == json.dumps(
        portable(held(value)), indent=indent
    )


def test_of_a_view_one_piece_is_made_at_a_time() -> None:
    made: list[int] = []

    def show(number: int) -> str:
        made.append(number)
        return "x" * 1000

    pieces = encoded({"all": Mapped(show, range(10_000))}, indent=2)
    first = next(pieces)
    assert PIECE_CHARS <= len(first) < 2 * PIECE_CHARS
    assert len(made) < 100


def test_a_view_is_equal_to_what_it_shows() -> None:
    view = Mapped(str, [1, 2, 3])
    assert view == ["1", "2", "3"]
    assert (view[1], view[1:], len(view)) == ("2", ["2", "3"], 3)
    assert view != ["1"]
    assert held({"a": {"b": view}, "c": 1}) == {"a": {"b": ["1", "2", "3"]}, "c": 1}
