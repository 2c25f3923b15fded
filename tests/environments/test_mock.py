"""A mock is slow and fails by its seed; without one it is a host."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from environments.yards import Yard, living, starting
from patchyard.clients.clock import SystemClock
from patchyard.contracts.environment import Toolbox
from patchyard.domain.environment import Mount
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, UsageError
from patchyard.environments.mock import (
    FAILURES_VARIABLE,
    LATENCY_VARIABLE,
    PLACE_FAILURES,
    SEED_VARIABLE,
    SPREAD,
    TOOL_FAILURES,
    Dice,
    MockEnvironment,
    Trouble,
    chance,
    trouble_from,
)

pytestmark = pytest.mark.anyio

DRAWS = 4000


@dataclass
class Slept:
    """Waits that were asked for, and not made."""

    waits: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)


def seed_where(is_wanted: Callable[[int], bool]) -> int:
    return next(seed for seed in range(100_000) if is_wanted(seed))


def quiet(seed: int) -> bool:
    """Whether the first start, attachment and end go well."""
    return all(chance(seed, what, 1) >= PLACE_FAILURES for what in ("start", "attach", "end"))


def test_the_same_seed_draws_the_same_and_others_draw_otherwise() -> None:
    drawn = [[chance(seed, "call", number) for number in range(50)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert chance(1, "call", 1) != chance(1, "start", 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("what", "share"), [("call", TOOL_FAILURES), ("start", PLACE_FAILURES)])
async def test_about_the_share_that_was_said_fails(seed: int, what: str, share: float) -> None:
    dice = Dice(Trouble(seed=seed, has_failures=True))
    rolled = [await dice.roll(what, latency_ms=0, share=share) for _ in range(DRAWS)]
    failed = [fate for fate in rolled if fate is not None]
    assert len(failed) / DRAWS == pytest.approx(share, abs=0.02)
    assert sum(fate < 0.5 for fate in failed) / len(failed) == pytest.approx(0.5, abs=0.15)


async def test_waits_are_the_latency_more_or_less_and_repeat_with_the_seed() -> None:
    heard = []
    for _ in range(2):
        slept = Slept()
        dice = Dice(Trouble(seed=5, latency_ms=100, place_latency_ms=500), sleep=slept)
        for _ in range(200):
            await dice.roll("call", latency_ms=dice.trouble.latency_ms, share=TOOL_FAILURES)
            await dice.place("start")
        heard.append(slept.waits)
    assert heard[0] == heard[1]
    calls, starts = heard[0][::2], heard[0][1::2]
    assert all(0.1 * (1 - SPREAD) <= wait <= 0.1 * (1 + SPREAD) for wait in calls)
    assert sum(calls) / len(calls) == pytest.approx(0.1, rel=0.1)
    assert sum(starts) / len(starts) == pytest.approx(0.5, rel=0.1)


async def test_without_being_told_nothing_fails_and_nothing_waits(yard: Yard) -> None:
    slept = Slept()
    async with starting(MockEnvironment(yard.station, Dice(sleep=slept))) as start:
        running = await start(yard.spec())
        said = [await running.run(f"echo {number}") for number in range(60)]
    assert said == [str(number) for number in range(60)]
    assert slept.waits == []


@pytest.mark.parametrize("what", ["start", "attach", "end"])
async def test_places_fail_as_real_ones_do_and_leave_nothing(yard: Yard, what: str) -> None:
    others = {"start", "attach", "end"} - {what}
    seed = seed_where(
        lambda seed: (
            chance(seed, what, 1) < PLACE_FAILURES <= min(chance(seed, what, n) for n in (2, 3))
            and all(chance(seed, other, 1) >= PLACE_FAILURES for other in others)
        )
    )
    mock = MockEnvironment(yard.station, Dice(Trouble(seed=seed, has_failures=True)))
    if what == "start":
        with pytest.raises(EnvironmentUnavailable, match="seed") as refused:
            await mock.start(yard.spec())
        assert list(yard.station.runtime.glob("0*")) == []
        assert FAILURES_VARIABLE in refused.value.hint
        return
    handle = await mock.start(yard.spec())
    with pytest.raises(EnvironmentBroken, match="seed"):
        await (mock.attach(handle) if what == "attach" else mock.end(handle))
    toolbox = await mock.attach(handle)  # it was there all the time
    await toolbox.close()
    await mock.end(handle)
    assert living(yard) == []


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_lost_call_was_never_made_or_only_its_answer_is_missing(
    yard: Yard, *, is_done: bool
) -> None:
    seed = seed_where(
        lambda seed: (
            quiet(seed)
            and (chance(seed, "call", 1) < TOOL_FAILURES)
            and (chance(seed, "call", 1) >= TOOL_FAILURES / 2) == is_done
            and chance(seed, "call", 2) >= TOOL_FAILURES
        )
    )
    mock = MockEnvironment(yard.station, Dice(Trouble(seed=seed, has_failures=True)))
    async with starting(mock) as start:
        running = await start(yard.spec())
        arguments = {"path": "new.txt", "content": "new\n"}
        with pytest.raises(EnvironmentBroken, match="seed"):
            await running.toolbox.call("01CALL", "write_file", arguments)
        known = await running.toolbox.attach("01CALL")
        assert (yard.workspace / "new.txt").exists() is is_done is (known is not None)
        assert (await running.toolbox.call("02CALL", "write_file", arguments))["success"]


async def test_check_says_what_starts_whatever_is_simulated(yard: Yard) -> None:
    seed = seed_where(lambda seed: chance(seed, "start", 1) < PLACE_FAILURES)
    mock = MockEnvironment(yard.station, Dice(Trouble(seed=seed, has_failures=True)))
    assert (await mock.check()).is_ready


async def test_it_cannot_show_places_elsewhere_and_says_its_own_name(yard: Yard) -> None:
    moved = Mount(source=str(yard.folder), target="/srv/elsewhere")
    with pytest.raises(EnvironmentUnavailable, match=r"^mock cannot show"):
        await MockEnvironment(yard.station).start(yard.spec(moved))


async def test_a_cancelled_call_is_cancelled_inside(yard: Yard) -> None:
    async with starting(MockEnvironment(yard.station)) as start:
        running = await start(yard.spec())
        waiting = asyncio.create_task(running.result("echo on; sleep 300", call_id="01LONG"))
        await running.run("true")
        await running.toolbox.cancel("01LONG")
        assert (await waiting)["error"] == "CANCELLED"
        await running.toolbox.forget(("01LONG",))
        assert (await running.toolbox.attach("01LONG") or {})["error"] == "OUTCOME_UNKNOWN"


def test_variables_say_what_goes_wrong_and_nothing_is_the_default() -> None:
    assert trouble_from({}) == Trouble()
    said = {FAILURES_VARIABLE: "true", LATENCY_VARIABLE: "100", SEED_VARIABLE: "7"}
    assert trouble_from(said) == Trouble(seed=7, has_failures=True, latency_ms=100)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (FAILURES_VARIABLE, "perhaps"),
        (LATENCY_VARIABLE, "-1"),
        (LATENCY_VARIABLE, "1e9"),
        (SEED_VARIABLE, "٣"),
    ],
)
async def test_a_wrong_variable_is_named_when_a_mock_starts(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    mock = MockEnvironment(yard.station)
    with pytest.raises(UsageError, match=name):
        await mock.start(yard.spec())
    assert os.environ[name] == value


async def test_ids_do_not_decide_what_fails(yard: Yard) -> None:
    fates = []
    for _ in range(2):
        seed = seed_where(quiet)
        mock = MockEnvironment(yard.station, Dice(Trouble(seed=seed, has_failures=True)))
        async with starting(mock) as start:
            toolbox = (await start(yard.spec())).toolbox
            fates.append([await _is_well(toolbox) for _ in range(60)])
    assert fates[0] == fates[1]
    assert 0 < fates[0].count(False) < 20


async def _is_well(toolbox: Toolbox) -> bool:
    try:
        await toolbox.call(SystemClock().new_id(), "read_file", {"path": "none"})
    except EnvironmentBroken:
        return False
    return True
