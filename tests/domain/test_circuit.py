"""Circuit breakers as data: what opens one, for how long, and who is let through then."""

import itertools

import pytest

from patchyard.domain.circuit import IN_A_ROW, LONGEST_S, PROBE_S, Circuit, Position


def opened(times: int = 1, *, now: float = 0.0) -> Circuit:
    circuit = Circuit()
    for _ in range(times):
        now += circuit.wait_s(now)
        circuit = circuit.failed(now, is_grave=True)
    return circuit


def test_light_failures_open_it_when_there_are_some_in_a_row() -> None:
    circuit = Circuit()
    for _ in range(IN_A_ROW - 1):
        circuit = circuit.failed(0.0, is_grave=False)
        assert circuit.position(0.0) == Position.CLOSED
    assert circuit.failed(0.0, is_grave=False).position(0.0) == Position.OPEN


def test_a_grave_one_opens_it_at_once_and_longer_each_time() -> None:
    made = [opened(times) for times in range(1, 9)]
    ends = [0.0, *(each.opens_until or 0.0 for each in made)]
    waits = [end - before for before, end in itertools.pairwise(ends)]
    assert waits[:3] == [5.0, 10.0, 20.0]
    assert waits[-1] == LONGEST_S
    assert Circuit().failed(0.0, is_grave=True, at_least_s=60).wait_s(0.0) == 60


def test_half_open_lets_one_request_through() -> None:
    circuit = opened()
    assert not circuit.admits(4.9)
    assert circuit.position(5.0) == Position.HALF_OPEN
    assert circuit.admits(5.0)
    probing = circuit.probing(5.0)
    assert not probing.admits(6.0)
    assert probing.admits(5.1 + PROBE_S)  # nobody heard of it again
    assert probing.let_go().admits(6.0)
    assert probing.failed(6.0, is_grave=False).wait_s(6.0) == 10.0  # open again, and longer


@pytest.mark.parametrize("now", [0.0, 100.0])
def test_a_closed_one_is_never_waited_for(now: float) -> None:
    assert Circuit().admits(now)
    assert Circuit().probing(now) == Circuit()
    assert Circuit().wait_s(now) == 0.0


def test_failures_of_requests_under_way_open_it_no_longer() -> None:
    circuit = opened()
    for _ in range(6):
        circuit = circuit.failed(1.0, is_grave=True)
    assert circuit.wait_s(1.0) == 4.0
    assert circuit.failed(1.0, is_grave=True, at_least_s=30).wait_s(1.0) == 30
    assert circuit.failed(5.0, is_grave=True).wait_s(5.0) == 10.0
