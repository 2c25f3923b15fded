"""What gVisor's version says of it."""

import pytest

from patchyard.domain.gvisor import day_of, is_old, note_of

DEBIAN = "runsc version 0.0~20221219.0\nspec: 1.0.2-dev"


@pytest.mark.parametrize(
    ("version", "day"),
    [
        (DEBIAN, "2022-12-19"),
        ("runsc version release-20260901.0\nspec: 1.2.1", "2026-09-01"),
        ("runsc version v0.0.0-20260905035102-160fafc42237", "2026-09-05"),
        ("runsc version VERSION_MISSING\nspec: 1.2.1", ""),
        ("runsc version 120221219", ""),
        ("", ""),
    ],
)
def test_the_day_of_a_version_is_found(version: str, day: str) -> None:
    assert day_of(version) == day


def test_an_old_one_is_named_with_what_follows_and_the_cure() -> None:
    said = note_of(day_of(DEBIAN))
    assert said.startswith("in gVisor of 2022-12-19, which does not keep agent code from")
    assert "install a release of gVisor from 2023 or newer" in said


@pytest.mark.parametrize("day", ["", "2023-01-01", "2026-09-05"])
def test_a_newer_one_and_one_that_tells_nothing_are_not_called_old(day: str) -> None:
    assert not is_old(day)
    assert note_of(day) == "in gVisor"
