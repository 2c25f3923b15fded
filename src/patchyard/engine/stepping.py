"""A step of a plan's work: timed while it is taken, journalled when it ends, however it ends."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from patchyard.domain.state import PlanState
from patchyard.domain.steps import Step, StepEnded
from patchyard.engine.ledger import Ledger

SAID = 300  # characters of what a step came to


class Going:
    """A step that is being taken."""

    def __init__(self) -> None:
        self._came_to = ""

    def came_to(self, words: str) -> None:
        """Say in a line what it came to; the last word stands."""
        self._came_to = " ".join(words.split())[:SAID]

    @property
    def said(self) -> str:
        """What it came to so far."""
        return self._came_to


@contextmanager
def step(ledger: Ledger, which: Step) -> Iterator[Going]:
    """Take a step of the plan. Its end reaches the disk with the next event."""
    going, began = Going(), ledger.monotonic()
    is_done = False
    try:
        yield going
        is_done = True
    finally:
        ended = StepEnded(
            step=which,
            phase=ledger.state.phase,
            seconds=round(ledger.monotonic() - began, 4),
            is_done=is_done,
            came_to=going.said,
        )
        ledger.note(ended)


@asynccontextmanager
async def tidied(ledger: Ledger) -> AsyncIterator[AsyncExitStack]:
    """Lend a stack of what is to be ended; to end it is the last step, and is always taken."""
    opened = AsyncExitStack()
    try:
        yield opened
    except BaseException as error:
        with step(ledger, Step.CLEANUP) as going:
            await opened.__aexit__(type(error), error, error.__traceback__)
            going.came_to(kept(ledger.state))
        raise
    with step(ledger, Step.CLEANUP) as going:
        await opened.aclose()
        going.came_to(kept(ledger.state))


def kept(state: PlanState) -> str:
    """Say what there is of a plan when its places are gone."""
    artifacts = (
        (state.changeset, "a change set"),
        (state.validation, "gate reports"),
        (state.review, "a review"),
        (state.record, "a design record"),
        (state.strategy, "a strategy"),
    )
    return ", ".join(name for there, name in artifacts if there) or "nothing to keep"


__all__ = ["SAID", "Going", "kept", "step", "tidied"]
