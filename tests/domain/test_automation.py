"""Profiles, confidence, safety and waits: all pure."""

from typing import Any

import pytest

from patchyard.domain.automation import (
    TABLE,
    UNSAID,
    automation,
    result_confidence,
    strategy_confidence,
)
from patchyard.domain.decision import Decision, DecisionKind
from patchyard.domain.environment import ExecutionEnvironment as Kind
from patchyard.domain.errors import UnknownName
from patchyard.domain.faults import Fault
from patchyard.domain.plan import PROFILES
from patchyard.domain.retry import LONGEST_S, SPREAD, spread_of, wait_before
from patchyard.domain.safety import SafetyProfile, asking, parse_safety, refusal
from patchyard.domain.tooling import Effect


def choice(confidence: float | None) -> Decision:
    return Decision(
        decision_id="D",
        parent_id="R",
        kind=DecisionKind.STRATEGY_CHOICE,
        question="how?",
        choice="so",
        confidence=confidence,
    )


def test_every_profile_has_its_row_and_an_unknown_one_no_fallback() -> None:
    assert set(TABLE) == set(PROFILES)
    with pytest.raises(UnknownName, match="unknown automation profile 'full'"):
        automation("full")


def test_profiles_never_get_more_hesitant_from_manual_to_auto() -> None:
    until_auto = [TABLE[name] for name in PROFILES[: PROFILES.index("auto") + 1]]
    for field in ("execute", "apply"):
        thresholds = [getattr(row, field) for row in until_auto]
        assert thresholds == sorted(thresholds, reverse=True)


def test_the_least_confident_choice_counts_and_silence_is_half() -> None:
    said = [choice(0.9), choice(0.4), choice(None)]
    assert strategy_confidence(said, is_declared=False) == 0.4
    assert strategy_confidence([choice(None)], is_declared=False) == UNSAID
    assert strategy_confidence([], is_declared=True) == 1.0
    assert strategy_confidence([choice(7.0)], is_declared=False) == 1.0
    assert strategy_confidence([choice(-1.0)], is_declared=False) == 0.0


def test_an_unproven_result_is_trusted_less_than_any_proven_one() -> None:
    def result(**said: Any) -> float:
        known = {"is_proven": True, "rounds": 0, "is_touched": False, "has_findings": False}
        return result_confidence(**{**known, **said})

    worst = result(rounds=3, is_touched=True, has_findings=True)
    assert result(is_proven=False) < worst < result(rounds=1) < result() == 1.0


def test_a_call_outside_the_allowed_categories_is_refused() -> None:
    reading = SafetyProfile(categories=("read",))
    said = refusal(reading, "write_file", Effect.WRITE, Kind.PROCESS)
    assert said is not None
    assert "its category is write" in said
    assert refusal(reading, "read_file", Effect.READ, Kind.PROCESS) is None


def test_without_unsafe_tools_commands_need_walls_and_reading_does_not() -> None:
    careful = SafetyProfile(allow_unsafe_tools=False)
    assert refusal(careful, "execute_command", Effect.RUN, Kind.HOST)
    assert refusal(careful, "execute_command", Effect.RUN, Kind.PROCESS) is None
    assert refusal(careful, "read_file", Effect.READ, Kind.HOST) is None


def test_nothing_is_written_that_could_not_be_brought_back() -> None:
    for is_required, is_kept, is_refused in (
        (True, False, True),
        (True, True, False),
        (False, False, False),
    ):
        profile = SafetyProfile(require_checkpoints=is_required)
        said = refusal(profile, "write_file", Effect.WRITE, Kind.PROCESS, has_checkpoints=is_kept)
        assert (said is not None) == is_refused


def test_an_approval_names_a_tool_or_its_category() -> None:
    assert asking(("run",), "execute_command", Effect.RUN) == "run"
    assert asking(("execute_command",), "execute_command", Effect.RUN) == "execute_command"
    assert asking(("apply", "write"), "execute_command", Effect.RUN) is None


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"require_sandbox": "yes"}, ("safety", "require_sandbox")),
        ({"categories": 3}, ("safety", "categories")),
        ({"categories": ["read", "fly"]}, ("safety", "categories", 1)),
        ({"max_cost_per_plan": -1}, ("safety", "max_cost_per_plan")),
        ({"max_total_cost": float("inf")}, ("safety", "max_total_cost")),
        ({"max_retries_per_step": 1.5}, ("safety", "max_retries_per_step")),
        ({"max_retries": 1}, ("safety", "max_retries")),
    ],
)
def test_a_safety_profile_that_does_not_fit_is_named_by_its_place(
    value: Any, place: tuple[Any, ...]
) -> None:
    with pytest.raises(Fault) as caught:
        parse_safety(value, ("safety",))
    assert caught.value.place == place


def test_a_safety_profile_is_read_whole() -> None:
    value = {"categories": "read", "max_cost_per_plan": 1, "max_retries_per_step": 0}
    assert parse_safety(value, ()) == SafetyProfile(
        categories=("read",), max_cost_per_plan=1.0, max_retries_per_step=0
    )


def test_waits_grow_are_bounded_and_honour_what_the_provider_asks_for() -> None:
    assert [wait_before(number, details={}) for number in (1, 2, 3)] == [1.0, 4.0, 16.0]
    assert wait_before(9, details={}) == LONGEST_S
    assert wait_before(1, details={"retry_after_s": 7}) == 7.0
    assert wait_before(1, details={"retry_after_s": 1e9}) == LONGEST_S
    assert wait_before(1, details={"retry_after_s": None}, spread=1.0) == 1.0 + SPREAD
    assert 0.0 <= spread_of("01M7ZEDN6GCTP4G741VEQ4Z0DN") <= 1.0
