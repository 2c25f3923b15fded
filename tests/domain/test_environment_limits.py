"""What environments may use: how it is written, what is refused, who wins."""

from typing import Any

import pytest

from patchyard.domain.effective import Layer, environment_limits_in_force
from patchyard.domain.environment import Limits
from patchyard.domain.environment_limits import (
    MEASURES,
    NAMES,
    EnvironmentLimits,
    environment_limits_of,
    given,
    in_force,
    limits_for,
    merged,
    of_words,
    shown,
)
from patchyard.domain.errors import QUOTED, UsageError
from patchyard.domain.faults import Fault
from patchyard.domain.settings import Settings
from patchyard.domain.sizes import shown_bytes
from patchyard.domain.trust import stricter_environments


@pytest.mark.parametrize(
    ("name", "said", "kept"),
    [
        ("memory", "512M", 512 * 1024**2),
        ("memory", "512m", 512 * 1024**2),
        ("memory", "2G", 2 * 1024**3),
        ("memory", "1.5GiB", 1536 * 1024**2),
        ("memory", 67108864, 64 * 1024**2),
        ("disk", "1 TiB", 1024**4),
        ("output", "100K", 100 * 1024),
        ("cpus", "1.5", 1.5),
        ("cpus", 2, 2.0),
        ("cpu_time", "10m", 600.0),
        ("wall", "90s", 90.0),
        ("processes", 32, 32),
        ("processes", "64", 64),
    ],
)
def test_a_limit_is_written_as_people_write_it(name: str, said: Any, kept: float) -> None:
    found = environment_limits_of({name: said}, ())
    assert getattr(found, name) == kept


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [0, -1, "0"])
def test_nothing_and_less_than_nothing_are_refused_with_the_least(name: str, value: Any) -> None:
    with pytest.raises(Fault) as refused:
        environment_limits_of({name: value}, ("environment_limits",))
    least = MEASURES[name].show(MEASURES[name].least)
    assert refused.value.place == ("environment_limits", name)
    assert f"must be {least} or more" in refused.value.message


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"memory": "8M"}, "must be 32 MiB or more, not 8M"),
        ({"processes": 3}, "must be 16 or more"),
        ({"processes": "many"}, "'many' is no whole number"),
        ({"processes": True}, "is no whole number"),
        ({"processes": "٣٢"}, "'٣٢' is no whole number"),
        ({"processes": "1_000"}, "'1_000' is no whole number"),
        ({"cpus": "all"}, "'all' is no number"),
        ({"cpus": "nan"}, "'nan' is no number"),
        ({"cpus": float("nan")}, "must be 0.05 or more"),
        ({"cpus": False}, "False is no number"),
        ({"cpus": "1_0"}, "'1_0' is no number"),
        ({"cpus": "1" * 5000}, "must be 1024 or less, not 1111"),
        ({"memory": "2 apples"}, "'2 apples' is no size"),
        ({"memory": True}, "True is no size"),
        ({"memory": "٣G"}, "'٣G' is no size"),
        ({"memory": "9" * 5000}, "is more than any machine has"),
        ({"wall": "soon"}, "'soon' is not a duration"),
        ({"wall": "1_0s"}, "'1_0s' is not a duration"),
        ({"wall": "٩s"}, "'٩s' is not a duration"),
        ({"wall": False}, "'False' is not a duration"),
        ({"memry": "1G"}, "did you mean 'memory'"),
        ([], "must be a mapping"),
    ],
)
def test_what_makes_no_sense_is_named(said: Any, words: str) -> None:
    with pytest.raises(Fault, match=words.replace("+", r"\+")):
        environment_limits_of(said, ())


@pytest.mark.parametrize(
    ("word", "most"),
    [
        ("processes=1000000000", "4194304"),
        ("wall=400d", "365 d"),
        ("cpus=2000", "1024"),
        ("memory=2000T", "1024 TiB"),
    ],
)
def test_the_most_is_said_as_it_can_be_typed(word: str, most: str) -> None:
    name, _, value = word.partition("=")
    with pytest.raises(UsageError) as refused:
        of_words((word,))
    assert refused.value.message == f"--limit {name}: must be {most} or less, not {value}"
    assert refused.value.hint == f"the most is {most}"
    assert given(of_words((f"{name}={most}",))) == {name: MEASURES[name].most}


def test_a_long_value_is_not_repeated_whole() -> None:
    with pytest.raises(UsageError, match=r"… \(100,000 characters\)") as refused:
        of_words((f"cpus={'1' * 100_000}",))
    assert len(refused.value.message) < 2 * QUOTED


def test_what_is_not_said_stays_unsaid() -> None:
    assert environment_limits_of({"memory": None}, ()) == EnvironmentLimits()
    assert limits_for() == Limits()
    assert in_force(EnvironmentLimits()).memory == Limits().memory_bytes
    assert in_force(EnvironmentLimits()).cpus is None


def test_the_first_that_says_a_limit_wins_and_others_fill_in() -> None:
    first = EnvironmentLimits(memory=1024**3)
    second = EnvironmentLimits(memory=2 * 1024**3, processes=20)
    assert merged(first, second) == EnvironmentLimits(memory=1024**3, processes=20)
    limits = limits_for(first, second)
    assert (limits.memory_bytes, limits.processes) == (1024**3, 20)
    assert limits.open_files == Limits().open_files


def test_words_of_an_option_are_pairs() -> None:
    found = of_words(("memory=2G", "cpu-time = 5m", "cpus=.5"))
    assert found == EnvironmentLimits(memory=2 * 1024**3, cpu_time=300.0, cpus=0.5)


@pytest.mark.parametrize("word", ["memory", "memory=", "=2G", "memory=0", "size=3"])
def test_a_word_that_is_no_limit_is_refused_with_the_option(word: str) -> None:
    with pytest.raises(UsageError, match="--limit") as refused:
        of_words((word,))
    assert not isinstance(refused.value, Fault)


def test_limits_are_shown_as_people_write_them() -> None:
    said = EnvironmentLimits(memory=1536 * 1024**2, wall=90.0, processes=20, cpus=1.5)
    assert shown(said) == {
        "memory": "1.5 GiB", "wall": "90 s", "processes": "20", "cpus": "1.5"
    }  # fmt: skip
    assert [shown_bytes(size) for size in (0, 512, 1024, 1024**2 * 3)] == [
        *("0 bytes", "512 bytes", "1 KiB", "3 MiB")
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_repository_makes_a_limit_stricter_and_never_weaker(name: str) -> None:
    own, less, more = (EnvironmentLimits(**{name: n}) for n in (10, 5, 20))
    assert stricter_environments(own, less, is_trusted=False) == (less, ())
    ignored = (f"environment_limits.{name}",)
    assert stricter_environments(own, more, is_trusted=False) == (EnvironmentLimits(), ignored)
    assert stricter_environments(own, more, is_trusted=True) == (more, ())
    assert stricter_environments(own, None, is_trusted=False) == (EnvironmentLimits(), ())


def test_what_is_in_force_is_that_of_the_first_place_and_the_default() -> None:
    layers = [
        Layer(origin="option", settings=Settings()),
        Layer(origin="p", settings=Settings(environment_limits=EnvironmentLimits(processes=40))),
        Layer(origin="f", settings=Settings(environment_limits=EnvironmentLimits(processes=50))),
    ]
    found = environment_limits_in_force(layers)
    assert (found.processes, found.open_files) == (40, Limits().open_files)
    assert [layer.is_typed for layer in layers] == [True, False, False]
