"""What is read of a `package.json`, whatever its form."""

import pytest

from patchyard.domain.gate_detection import gates_for
from patchyard.domain.package_json import package_of, table_of


@pytest.mark.parametrize("text", [None, "", "{", "[]", "3", "null", "[" * 100_000])
def test_what_is_no_object_is_empty(text: str | None) -> None:
    assert package_of(text) == {}


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ('{"scripts": {"test": "jest"}}', {"test": "jest"}),
        ('{"scripts": ["test"]}', {}),
        ('{"scripts": null}', {}),
        ("{}", {}),
    ],
)
def test_a_table_is_empty_where_there_is_none(text: str, scripts: dict[str, str]) -> None:
    assert table_of(package_of(text), "scripts") == scripts


def test_what_else_fits_a_repository_is_seen_beside_a_package_that_cannot_be_read() -> None:
    files = {"package.json": "{", "tsconfig.json": "{}"}
    assert gates_for(files.get, files)["types"] == "tsc"
