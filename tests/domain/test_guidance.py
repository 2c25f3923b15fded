"""Guidance is told exactly once, whatever is lost, taken up again or begun anew in between."""

from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.events import Body, Event, Moved, PlanCreated, TurnRequested, TurnTaken
from patchyard.domain.fold import fold
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.state import PlanState
from patchyard.domain.steering import SHOWN_CHARS, Guided, guidance_text, shown_text

BEGIN: tuple[Event, ...] = (
    PlanCreated(spec=PlanSpec(task="t", repository="/r")),
    *(
        Moved(phase=Phase.STRATEGIZE, state=state)
        for state in (State.QUEUED, State.PROCESSING, State.COMPLETE)
    ),
    *(Moved(phase=Phase.EXECUTE, state=state) for state in (State.QUEUED, State.PROCESSING)),
)
STOPPED = (
    Moved(phase=Phase.EXECUTE, state=State.ERRORED),
    Moved(phase=Phase.EXECUTE, state=State.PROCESSING),
)
ANEW = (
    Moved(phase=Phase.EXECUTE, state=State.ERRORED),
    Moved(phase=Phase.STRATEGIZE, state=State.QUEUED),
    Moved(phase=Phase.STRATEGIZE, state=State.PROCESSING),
    Moved(phase=Phase.STRATEGIZE, state=State.COMPLETE),
    Moved(phase=Phase.EXECUTE, state=State.QUEUED),
    Moved(phase=Phase.EXECUTE, state=State.PROCESSING),
)


class Plan:
    """A plan as its owner drives it, kept as its events alone."""

    def __init__(self) -> None:
        self.state = PlanState(plan_id="P")
        self.said = 0
        self.told: list[str] = []
        self._asked = ""
        self.record(*BEGIN)

    def record(self, *events: Event) -> None:
        version = self.state.version
        numbered = [(n, 0.0, event) for n, event in enumerate(events, start=version + 1)]
        self.state = fold(self.state, numbered)

    def prompt(self) -> None:
        self.said += 1
        self.record(Guided(guidance_id="G", text=f"<{self.said}>", word=self.said))

    def ask(self) -> None:
        guided = self.state.steered.guidance
        self._asked = guidance_text(guided)
        self.record(TurnRequested(turn=self.state.turn + 1, told=len(guided)))

    def take(self) -> None:
        if self.state.asked is None:
            self.ask()
        self.record(TurnTaken(turn=self.state.turn + 1, note="", body=Body(), guidance=self._asked))
        self.told.append(self._asked)

    def stop(self) -> None:
        self.record(*STOPPED)
        self.ask()  # a resume asks anew, with all that was not told

    def begin_anew(self) -> None:
        self.record(*ANEW)


STEPS = st.lists(st.sampled_from(["prompt", "ask", "take", "stop", "begin_anew"]), max_size=30)


@given(steps=STEPS)
def test_each_word_is_in_exactly_one_turn_that_was_taken(steps: list[str]) -> None:
    plan = Plan()
    for step in steps:
        getattr(plan, step)()
    plan.ask()
    plan.take()
    everything = "".join(plan.told)
    assert [everything.count(f"<{n}>") for n in range(1, plan.said + 1)] == [1] * plan.said
    assert plan.state.steered.guidance == ()
    assert plan.state.steered.heard == plan.said
    assert plan.state.rounds == 0


def test_what_is_shown_for_approval_hides_neither_its_end_nor_that_something_is_left_out() -> None:
    text = "rm " + "x" * SHOWN_CHARS + " /etc"
    shown = shown_text(text)
    assert shown.startswith("rm x")
    assert shown.endswith(" /etc")
    assert "8 characters are not shown" in shown
    assert shown_text("short") == "short"
