"""What calls, environments and plans have used: from counters and claims to totals."""

import dataclasses
from typing import Any

import pytest

from patchyard.domain.usage import (
    NOTHING,
    Reading,
    Usage,
    at_least,
    of_environment,
    spent,
    together,
    usage_data,
)
from patchyard.domain.usage_fold import Used, called, carried_at, over


def test_what_is_counted_outside_wins_over_what_the_toolbox_says() -> None:
    before = Reading(cpu_s=1.0, written_bytes=100)
    after = Reading(cpu_s=1.25, written_bytes=300, memory_bytes=50, processes=4)
    inside = {"cpu_s": 99.0, "memory_bytes": 1, "written_bytes": 9}
    said = {"usage": inside, "stdout_bytes": 5, "stderr_bytes": 2, "elapsed_s": 0.5}
    found = spent(before, after, said)
    assert found == Usage(
        cpu_s=0.25, memory_bytes=50, processes=4, written_bytes=200, output_bytes=7, wall_s=0.5,
        claimed=("output_bytes", "wall_s"),
    )  # fmt: skip


def test_where_nobody_counts_the_claims_are_taken_and_marked() -> None:
    inside = {"cpu_s": 0.12345678, "memory_bytes": 70, "written_bytes": 512}
    found = spent(Reading(), Reading(), {"usage": inside})
    assert (found.cpu_s, found.memory_bytes, found.written_bytes) == (0.1235, 70, 512)
    assert found.claimed == ("cpu_s", "memory_bytes", "written_bytes")
    assert found.processes is None


def test_a_look_that_saw_less_than_the_toolbox_says_does_not_lower_the_most_at_once() -> None:
    said = {"usage": {"memory_bytes": 70}}
    found = spent(Reading(), Reading(memory_now=50, processes_now=3), said)
    assert (found.memory_bytes, found.processes) == (70, 3)
    assert found.claimed == ("memory_bytes",)


def test_a_look_that_saw_all_together_use_more_than_the_largest_is_taken_and_is_no_claim() -> None:
    said = {"usage": {"memory_bytes": 70}}
    found = spent(Reading(), Reading(memory_now=80), said)
    assert (found.memory_bytes, found.claimed) == (80, ())
    counted = spent(Reading(), Reading(memory_bytes=75, memory_now=80), said)
    assert (counted.memory_bytes, counted.claimed) == (75, ())


@pytest.mark.parametrize(
    "said",
    [
        {"usage": "much"},
        {"usage": {"cpu_s": "x", "memory_bytes": -5, "written_bytes": float("nan")}},
        {"usage": {"cpu_s": True}, "stdout_bytes": [], "elapsed_s": float("inf")},
        {},
    ],
)
def test_claims_that_make_no_sense_are_no_figures(said: dict[str, Any]) -> None:
    assert spent(Reading(), Reading(), said) == NOTHING


def test_a_counter_that_begins_anew_gives_nothing_less_than_nothing() -> None:
    assert spent(Reading(cpu_s=5.0), Reading(cpu_s=1.0), {}).cpu_s == 0


def test_uses_one_after_the_other_are_summed_and_peaks_are_not() -> None:
    one = Usage(cpu_s=1.0, memory_bytes=10, processes=3, connections=2, claimed=("wall_s",))
    other = Usage(cpu_s=0.5, memory_bytes=7, processes=5, network_bytes=9, claimed=("cpu_s",))
    assert together(one, other) == Usage(
        cpu_s=1.5, memory_bytes=10, processes=5, network_bytes=9, connections=2,
        claimed=("cpu_s", "wall_s"),
    )  # fmt: skip
    assert at_least(one, other).cpu_s == 1.0
    assert together(NOTHING, NOTHING) == NOTHING


def test_an_environment_used_what_its_calls_did_at_least() -> None:
    calls = Usage(cpu_s=2.0, memory_bytes=90, output_bytes=5)
    found = of_environment(Reading(cpu_s=3.0, memory_bytes=40, processes=7), calls)
    assert (found.cpu_s, found.memory_bytes, found.processes) == (3.0, 90, 7)
    assert found.output_bytes == 5
    assert of_environment(Reading(), calls) == calls


def test_data_for_programs_names_each_figure() -> None:
    names = {field.name for field in dataclasses.fields(Usage)}
    assert usage_data(Usage(claimed=("wall_s",))).keys() == names
    assert usage_data(Usage(claimed=("wall_s",)))["claimed"] == ["wall_s"]


def test_a_plans_use_counts_each_environment_once() -> None:
    used = Used()
    for seconds in (1.0, 2.0):
        used = called(used, "one", Usage(cpu_s=seconds, memory_bytes=10))
    used = called(used, "two", Usage(cpu_s=4.0))
    assert used.total == Usage(cpu_s=7.0, memory_bytes=10)
    used = over(used, "one", Usage(cpu_s=3.5), place="box")  # what it began with counts too
    assert used.total == Usage(cpu_s=7.5, memory_bytes=10)
    used = over(used, "two", None, place="box")  # nobody could say: its calls stand
    assert used.total == Usage(cpu_s=7.5, memory_bytes=10)
    assert used.live == {}
    used = over(used, "proof", Usage(cpu_s=1.0), place="box")
    assert used.total.cpu_s == 8.5


def test_a_place_has_carried_what_its_environments_have() -> None:
    used = called(Used(), "one", Usage(network_bytes=5))
    used = called(used, "two", Usage(network_bytes=7))
    used = called(used, "far", Usage(network_bytes=100))
    assert carried_at(used, "box", ("one", "two", "three")) == 12
    used = over(used, "one", Usage(network_bytes=6), place="box")  # a job's, after the last call
    used = over(used, "far", None, place="hut")
    assert carried_at(used, "box", ("two",)) == 13
    assert carried_at(over(used, "two", None, place="box"), "box", ()) == 13
    assert carried_at(used, "hut", ()) == 100


def test_what_is_not_known_changes_nothing() -> None:
    used = Used()
    assert called(used, "one", None) is used
    assert called(used, "", Usage(cpu_s=1.0)) is used
    assert over(used, "one", None, place="") is used
