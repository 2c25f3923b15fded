"""The transition table, and the fold that obeys it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.errors import GuardRefused, JournalBroken
from patchyard.domain.events import (
    Body,
    EnvironmentEnded,
    Event,
    Moved,
    Noted,
    PhaseFailed,
    PlanCreated,
    Resumed,
    StrategyRecorded,
    TurnRequested,
    TurnTaken,
    Validated,
)
from patchyard.domain.fold import fold
from patchyard.domain.plan import TRANSITIONS, Phase, PlanSpec, State, check_transition
from patchyard.domain.state import PlanState

SPEC = PlanSpec(task="mend it", repository="/srv/repo")
STEPS = sorted(TRANSITIONS)


def folded(*events: Event, at: float = 0.0) -> PlanState:
    numbered = [(n, at + n, event) for n, event in enumerate(events, start=1)]
    return fold(PlanState(plan_id="P"), numbered)


def moves(*steps: tuple[Phase, State]) -> list[Moved]:
    return [Moved(phase=phase, state=state) for phase, state in steps]


TO_EXECUTED = moves(
    (Phase.STRATEGIZE, State.QUEUED),
    (Phase.STRATEGIZE, State.PROCESSING),
    (Phase.STRATEGIZE, State.COMPLETE),
    (Phase.EXECUTE, State.QUEUED),
    (Phase.EXECUTE, State.PROCESSING),
)


@pytest.mark.parametrize("old", STEPS, ids=lambda step: f"{step[0]}-{step[1]}")
def test_a_plan_goes_only_where_the_table_allows(old: tuple[Phase, State]) -> None:
    for new in itertools.product(Phase, State):
        if new in TRANSITIONS[old]:
            check_transition(old, new)
        else:
            with pytest.raises(GuardRefused, match="cannot go from"):
                check_transition(old, new)


def test_every_target_of_the_table_is_itself_in_the_table() -> None:
    targets = set().union(*TRANSITIONS.values())
    assert targets <= set(TRANSITIONS)


def test_the_action_phase_is_only_ever_queued() -> None:
    assert [state for phase, state in TRANSITIONS if phase == Phase.ACTION] == [State.QUEUED]


def test_applied_is_where_a_plan_ends() -> None:
    assert TRANSITIONS[Phase.APPLY, State.APPLIED] == frozenset()


def test_execute_cannot_begin_before_strategize_is_complete() -> None:
    ready = (Phase.EXECUTE, State.QUEUED)
    before = [step for step in TRANSITIONS if ready in TRANSITIONS[step]]
    assert (Phase.STRATEGIZE, State.COMPLETE) in before
    assert not {step for step in before if step[0] == Phase.STRATEGIZE} - {
        (Phase.STRATEGIZE, State.COMPLETE)
    }


def test_a_forbidden_move_folds_to_an_error() -> None:
    with pytest.raises(GuardRefused):
        folded(PlanCreated(spec=SPEC), Moved(phase=Phase.EXECUTE, state=State.QUEUED))


def test_a_missing_event_is_noticed() -> None:
    with pytest.raises(JournalBroken, match="event 2"):
        fold(
            PlanState(plan_id="P"),
            [(1, 0.0, PlanCreated(spec=SPEC)), (3, 0.0, Noted(text="later"))],
        )


def test_a_stream_without_a_plan_is_noticed_where_the_plan_is_needed() -> None:
    state = folded(Noted(text="hello"))
    with pytest.raises(JournalBroken, match="does not begin with a plan"):
        _ = state.known


def test_a_lost_model_answer_is_budgeted_as_if_it_had_been_charged() -> None:
    state = folded(
        PlanCreated(spec=SPEC),
        TurnRequested(turn=1, reserved_tokens=500),
        Resumed(process=7),
        TurnRequested(turn=1, reserved_tokens=500),
        TurnTaken(turn=1, note="", body=Body(value={}), input_tokens=40, output_tokens=2),
    )
    assert state.spent.tokens == 542
    assert state.spent.steps == 1


def test_the_strategy_survives_a_failed_execute() -> None:
    state = folded(
        PlanCreated(spec=SPEC),
        *TO_EXECUTED[:2],
        StrategyRecorded(summary="thus", decision_root_id="D"),
        *TO_EXECUTED[2:],
        PhaseFailed(phase=Phase.EXECUTE, code="failed", message="no", details={"a": 1}),
        *moves((Phase.EXECUTE, State.ERRORED), (Phase.EXECUTE, State.PROCESSING)),
    )
    assert (state.strategy, state.decision_root_id) == ("thus", "D")
    assert state.failure is None
    assert state.attempt == 2


def test_a_restart_of_strategize_begins_a_new_transcript_and_counts_as_a_revert() -> None:
    state = folded(
        PlanCreated(spec=SPEC),
        *TO_EXECUTED[:2],
        TurnTaken(turn=1, note="", body=Body(value={})),
        *moves((Phase.STRATEGIZE, State.ERRORED), (Phase.STRATEGIZE, State.QUEUED)),
    )
    assert (state.turn, state.reverts, state.attempt_starts) == (0, 1, state.version)


def test_only_time_spent_working_counts_against_the_limit() -> None:
    waiting = fold(
        PlanState(plan_id="P"), [(1, 0.0, PlanCreated(spec=SPEC)), (2, 100.0, TO_EXECUTED[0])]
    )
    assert waiting.spent.seconds == 0.0
    working = fold(waiting, [(3, 101.0, TO_EXECUTED[1]), (4, 111.0, Noted(text="x"))])
    assert working.spent.seconds == 10.0
    resumed = fold(working, [(5, 900.0, Resumed(process=1)), (6, 901.0, Noted(text="y"))])
    assert resumed.spent.seconds == 11.0


def test_a_new_turn_makes_an_older_proof_void() -> None:
    proof = Validated(round=1, changeset_id="cs", tree="t", passed=False, results=Body(value=[]))
    state = folded(PlanCreated(spec=SPEC), *TO_EXECUTED, proof)
    assert (state.rounds, state.validation) == (0, proof)
    told = TurnTaken(turn=1, note="it failed", body=Body(value={}))
    state = fold(state, [(state.version + 1, 9.0, told)])
    assert (state.rounds, state.validation) == (1, None)


def test_ending_an_environment_twice_is_harmless() -> None:
    state = folded(
        PlanCreated(spec=SPEC),
        EnvironmentEnded(environment_id="E"),
        EnvironmentEnded(environment_id="E"),
    )
    assert state.environments == {}


@given(st.lists(st.sampled_from(list(itertools.product(Phase, State))), max_size=12))
def test_the_fold_is_in_the_table_whatever_is_asked(steps: list[tuple[Phase, State]]) -> None:
    state = folded(PlanCreated(spec=SPEC))
    for phase, move in steps:
        try:
            state = fold(state, [(state.version + 1, 0.0, Moved(phase=phase, state=move))])
        except GuardRefused:
            continue
    assert (state.phase, state.state) in TRANSITIONS
