"""Which known name is suggested for a misspelt one, and when none is."""

import pytest

from patchyard.domain.errors import UnknownName
from patchyard.domain.faults import unknown_key
from patchyard.domain.nearness import near_names
from patchyard.domain.settings import KEYS


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("rum", ["run", "read"], ["run"]),
        ("rnu", ["run", "read"], ["run"]),
        ("hme", ["home"], ["home"]),
        ("pools", ["pool", "tools"], ["pool"]),
        ("conf", ["config"], ["config"]),
        ("args", ["arguments"], ["arguments"]),
        ("cmd", ["command"], ["command"]),
        ("vaildate", KEYS, ["validate"]),
        ("foo", ["pool"], []),
        ("fools", ["pool"], []),
        ("xy", ["xz"], []),
        ("foo", [], []),
    ],
)
def test_a_short_name_is_suggested_where_it_is_one_slip_away(
    name: str, known: list[str], meant: list[str]
) -> None:
    assert near_names(name, known) == meant


def test_several_names_come_nearest_first() -> None:
    assert near_names("limit", ["limits", "limiter", "time"], most=2) == ["limits", "limiter"]


def test_no_far_name_is_suggested_for_a_key_or_a_value() -> None:
    assert unknown_key((), "foo", KEYS).problem == "unknown key 'foo'"
    assert UnknownName.among("agent", "foo", KEYS).message == "unknown agent 'foo'."
    assert unknown_key((), "pol", KEYS).problem.endswith("did you mean 'pool'?")
