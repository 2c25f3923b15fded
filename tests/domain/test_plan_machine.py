"""The life of a plan as a state machine: whatever happens, in whatever order, the fold is true."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from patchyard.domain.checkpoint import CheckpointMade, FilesRestored, RolledBack, Trigger
from patchyard.domain.errors import GuardRefused
from patchyard.domain.events import (
    Body,
    Event,
    Moved,
    PlanCreated,
    ToolCallRequested,
    ToolCallSettled,
    TurnRequested,
    TurnTaken,
)
from patchyard.domain.fold import fold
from patchyard.domain.plan import TRANSITIONS, Phase, PlanSpec, State
from patchyard.domain.state import PlanState
from patchyard.domain.transcript import transcript

STEPS = sorted(TRANSITIONS)


class PlanMachine(RuleBasedStateMachine):
    """Events as an engine may record them; a plain list of turns and calls beside the fold."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int, float, Event]] = []
        self.state = PlanState(plan_id="p")
        self.turns: list[list[str]] = []  # the calls of each turn in force
        self.kept: dict[str, list[list[str]]] = {}  # checkpoint to the turns in force then
        self.number = 0
        self.happen(
            PlanCreated(spec=PlanSpec(task="t", repository="/r")),
            Moved(phase=Phase.STRATEGIZE, state=State.QUEUED),
        )

    def happen(self, *events: Event) -> None:
        rows = [(len(self.rows) + n, float(len(self.rows) + n), e) for n, e in enumerate(events, 1)]
        self.state = fold(self.state, rows)
        self.rows += rows

    def new(self, letter: str) -> str:
        self.number += 1
        return f"{letter}{self.number}"

    @property
    def is_working(self) -> bool:
        return self.state.state == State.PROCESSING and self.state.phase != Phase.APPLY

    @precondition(lambda self: bool(TRANSITIONS[self.state.phase, self.state.state]))
    @rule(data=st.data())
    def goes_on(self, data: Any) -> None:
        allowed = sorted(TRANSITIONS[self.state.phase, self.state.state])
        self.moves(data.draw(st.sampled_from(allowed)))

    @rule(to=st.sampled_from(STEPS))
    def jumps(self, to: tuple[Phase, State]) -> None:
        self.moves(to)

    def moves(self, to: tuple[Phase, State]) -> None:
        """Along the table, or nowhere."""
        before = self.state
        here = (before.phase, before.state)
        if to not in TRANSITIONS[here]:
            with pytest.raises(GuardRefused):
                self.happen(Moved(phase=to[0], state=to[1]))
            assert self.state is before
            return
        self.happen(Moved(phase=to[0], state=to[1]))
        assert (self.state.phase, self.state.state) == to
        if self.state.attempt_starts != before.attempt_starts:
            self.turns, self.kept = [], {}

    @precondition(lambda self: self.is_working and not self.state.open_calls)
    @rule()
    def thinks(self) -> None:
        turn = self.state.turn + 1
        self.happen(TurnRequested(turn=turn), TurnTaken(turn=turn, note="", body=Body(value={})))
        self.turns = [*self.turns, []]

    @precondition(lambda self: self.is_working and self.turns and not self.state.open_calls)
    @rule(is_checked=st.booleans(), is_settled=st.booleans())
    def calls(self, *, is_checked: bool, is_settled: bool) -> None:
        call_id, turn = self.new("call"), self.state.turn
        if is_checked:
            self._check(Trigger.BEFORE_TOOL, call_id)
        asked = ToolCallRequested(
            call_id=call_id, turn=turn, ref=call_id, name="t", arguments=Body(), environment_id="e"
        )
        self.happen(asked)
        self.turns = [*self.turns[:-1], [*self.turns[-1], call_id]]
        if is_settled:
            self.settles()

    @precondition(lambda self: self.state.open_calls)
    @rule()
    def settles(self) -> None:
        call_id = next(iter(self.state.open_calls))
        self.happen(ToolCallSettled(call_id=call_id, success=True, message=""))
        assert call_id not in self.state.open_calls

    @precondition(lambda self: self.is_working and self.turns and not self.state.open_calls)
    @rule()
    def ends_a_round(self) -> None:
        self._check(Trigger.PHASE, "")

    def _check(self, trigger: Trigger, call_id: str) -> None:
        name = self.new("checkpoint")
        self.happen(
            CheckpointMade(
                checkpoint_id=name,
                trigger=trigger,
                turn=self.state.turn,
                manifest=Body(),
                call_id=call_id,
            )
        )
        self.kept[name] = self.turns

    @precondition(lambda self: self.kept and self.state.checkpoints)
    @rule(data=st.data(), is_repeat=st.booleans())
    def goes_back(self, data: Any, *, is_repeat: bool) -> None:
        """Files and conversation to a checkpoint; later checkpoints are no more."""
        marks = [mark for mark in self.state.checkpoints if mark.checkpoint_id in self.kept]
        mark = data.draw(st.sampled_from(marks))
        steps = self.state.spent.steps
        self.happen(
            RolledBack(checkpoint_id=mark.checkpoint_id, version=mark.version, is_repeat=is_repeat),
            FilesRestored(checkpoint_id=mark.checkpoint_id),
        )
        self.turns = self.kept[mark.checkpoint_id]
        drops = mark.trigger == Trigger.BEFORE_TOOL and not is_repeat and not self.turns[-1]
        if drops:
            self.turns = self.turns[:-1]
        left = {each.checkpoint_id for each in self.state.checkpoints}
        self.kept = {name: turns for name, turns in self.kept.items() if name in left}
        assert mark.checkpoint_id in left
        assert self.state.open_calls == {}
        assert self.state.spent.steps == steps  # what was paid stays paid

    @invariant()
    def the_fold_is_one_whatever_its_pieces(self) -> None:
        assert fold(PlanState(plan_id="p"), self.rows) == self.state

    @invariant()
    def the_transcript_holds_what_is_in_force(self) -> None:
        steps = transcript(self.rows, starts=self.state.attempt_starts)
        assert _calls(steps) == self.turns
        assert self.state.turn == len(self.turns)

    @invariant()
    def a_call_is_open_until_it_is_settled(self) -> None:
        steps = transcript(self.rows, starts=self.state.attempt_starts)
        asked = {call.call_id for step in steps for call, settled in step.calls if settled is None}
        assert set(self.state.open_calls) >= asked


def _calls(steps: Sequence[Any]) -> list[list[str]]:
    return [[call.call_id for call, _ in step.calls] for step in steps]


PlanMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestThePlanMachine = PlanMachine.TestCase
