"""YAML files are read strictly, and every mistake has a line and a column."""

import os
from pathlib import Path

import pytest

from patchyard.clients.yaml import FILE_BYTES, parse_yaml, read_yaml
from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault


def test_reads_plain_values_with_their_places() -> None:
    document = parse_yaml("a: 1\nb: [x, 0x10, 1.5, true, ~, 2020-01-01]\nc: {d: 'e'}\n", name="f")
    assert document.value == {
        "a": 1,
        "b": ["x", 16, 1.5, True, None, "2020-01-01"],
        "c": {"d": "e"},
    }
    assert document.marks["c", "d"] == (3, 5)
    error = document.refused(Fault(("b", 2, "deeper"), "wrong", hint="h"))
    assert error.message.startswith("f:2:14: b[2].deeper: wrong")
    assert error.exit_code == 2
    assert parse_yaml("", name="f").value is None


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", "f:3:1", "twice, first in line 1"),
        ("a: [1\nb: 2", "f:2:", ""),
        ("a: &x 1\nb: *x\n", "f:2:1", "aliases"),
        ("a: !!python/object:os.system x\n", "f:1:1", "tag"),
        ("? [a]\n: 1\n", "f:1:1", "must be text"),
        ("a: " + "[" * 60 + "]" * 60, "f:1:", "deep"),
        (f"a: 0x{'f' * 5000}", "f:1:1", "longer than a number may be"),
        (f"a: -0x{'f' * 39}", "f:1:1", "longer than a number may be"),
        (f"a: [1, 0o{'7' * 5000}]", "f:1:8", "longer than a number may be"),
        (f"a: {'9' * 4000}", "f:1:1", "longer than a number may be"),
        (f"a: {'9' * 5000}", "f:1:1", "longer than a number may be"),
        (f"a: {'9' * 300}.5", "f:1:1", "longer than a number may be"),
        (f"a: 1e{'9' * 5000}", "f:1:1", "longer than a number may be"),
    ],
)
def test_a_mistake_has_a_line_and_a_column(text: str, place: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_yaml(text, name="f")
    assert caught.value.message.startswith(place)
    assert words in caught.value.message


def test_a_long_number_is_read_where_it_is_text_and_repeated_shortened() -> None:
    long = "9" * 5000
    assert parse_yaml(f"a: '{long}'", name="f").value == {"a": long}
    assert parse_yaml(f"a: {long}", name="f", is_text=lambda _: True).value == {"a": long}
    assert parse_yaml(f"a: 0x{'f' * 38}", name="f").value == {"a": 16**38 - 1}
    with pytest.raises(UsageError) as caught:
        parse_yaml(f"a: {long}", name="f")
    assert len(caught.value.message) < 300


def test_what_is_no_readable_text_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "latin").write_bytes(b"a: \xff")
    (tmp_path / "large").write_bytes(b"#" * (FILE_BYTES + 1))
    for name, words in [
        ("fifo", "not a file"),
        ("latin", "not UTF-8"),
        ("large", "larger"),
        ("absent", "cannot be read"),
        (".", "cannot be read"),
    ]:
        with pytest.raises(UsageError, match=words):
            read_yaml(tmp_path / name)
