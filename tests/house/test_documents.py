"""The reference pages say what the code does."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

from patchyard import domain
from patchyard.domain import errors
from patchyard.domain.plan import TRANSITIONS
from tree import ROOT

PAGE = (ROOT / "docs/reference/results.md").read_text(encoding="utf-8")


def _kinds(of: type[errors.PatchyardError]) -> Iterator[type[errors.PatchyardError]]:
    yield of
    for kind in of.__subclasses__():
        yield from _kinds(kind)


def _code(kind: type[errors.PatchyardError]) -> str:
    return kind.code


for module in pkgutil.iter_modules(domain.__path__):
    importlib.import_module(f"patchyard.domain.{module.name}")
KINDS = sorted(
    {k for k in _kinds(errors.PatchyardError) if k.__module__.startswith("patchyard.domain.")},
    key=_code,
)


@pytest.mark.parametrize("kind", KINDS)
def test_each_error_code_is_documented_with_its_exit(kind: type[errors.PatchyardError]) -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGE, re.MULTILINE))
    assert rows.get(kind.code) == str(kind.exit_code)


def test_the_transitions_of_a_plan_are_documented_as_they_are() -> None:
    page = (ROOT / "docs/reference/plan_execute.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+/\w+)` \| (.*) \|$", page, re.MULTILINE)
    written = {start: set(re.findall(r"`(\w+/\w+)`", ends)) for start, ends in rows}
    assert written == {
        "/".join(start): {"/".join(end) for end in ends} for start, ends in TRANSITIONS.items()
    }
