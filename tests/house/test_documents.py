"""The reference pages say what the code does."""

import re
from collections.abc import Iterator

import pytest

from patchyard.domain import errors
from tree import ROOT

PAGE = (ROOT / "docs/reference/results.md").read_text(encoding="utf-8")


def _kinds(of: type[errors.PatchyardError]) -> Iterator[type[errors.PatchyardError]]:
    yield of
    for kind in of.__subclasses__():
        yield from _kinds(kind)


def _code(kind: type[errors.PatchyardError]) -> str:
    return kind.code


KINDS = sorted(set(_kinds(errors.PatchyardError)), key=_code)


@pytest.mark.parametrize("kind", KINDS)
def test_each_error_code_is_documented_with_its_exit(kind: type[errors.PatchyardError]) -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGE, re.MULTILINE))
    assert rows.get(kind.code) == str(kind.exit_code)
