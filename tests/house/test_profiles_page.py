"""The page of automation says what the tables in the code do."""

import re

import pytest

from patchyard.domain.automation import ALWAYS_ASKED, TABLE
from patchyard.domain.safety import KEYS
from tree import ROOT

PAGE = (ROOT / "docs/reference/automation.md").read_text(encoding="utf-8")


def threshold(value: float) -> str:
    return "asks" if value == ALWAYS_ASKED else f"{value:g}"


@pytest.mark.parametrize("name", TABLE)
def test_each_profile_is_documented_as_it_is(name: str) -> None:
    row = TABLE[name]
    calls = ", ".join(f"`{effect}`" for effect in sorted(row.calls)) or "none"
    cells = (f"`{name}`", threshold(row.execute), threshold(row.apply), calls, str(row.reverts))
    assert f"| {' | '.join(cells)} |" in PAGE


def test_each_key_of_the_safety_profile_is_documented() -> None:
    section = PAGE.partition("## Safety profile")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(KEYS)
