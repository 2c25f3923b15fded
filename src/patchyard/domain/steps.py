"""The seven steps of a plan's work (C16), as its journal tells of them. Pure.

A step that is taken more than once (a round of work, a life after a kill) adds up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from patchyard.domain.plan import Phase
from patchyard.domain.records import replace

CUT = "cut short"
SHOWN_S = 0.05  # a step that took less is shown to programs alone


class Step(StrEnum):
    """One of the seven, in their order."""

    ANALYSIS = "analysis"  # what is asked, of what repository, and how it is gone about
    ENVIRONMENT = "environment"  # the places there must be, and what is installed in them
    REPOSITORY = "repository"  # the tree to work on
    MODEL = "model"  # who thinks
    EXECUTION = "execution"  # turns with tools
    VALIDATION = "validation"  # what changed, and whether it holds
    CLEANUP = "cleanup"  # nothing goes on, and what came of it is kept; after a failure too


@dataclass(frozen=True, kw_only=True)
class StepEnded:
    """A step was taken, or was cut short."""

    step: Step
    phase: Phase
    seconds: float  # of this process's clock
    is_done: bool  # False: it ended early
    came_to: str = ""  # in a line, for people


@dataclass(frozen=True, kw_only=True)
class StepTaken:
    """All that one step came to so far."""

    times: int = 0
    seconds: float = 0.0
    is_done: bool = False
    came_to: str = ""  # newest word


@dataclass(frozen=True, kw_only=True)
class Steps:
    """All steps of a plan that were taken."""

    taken: Mapping[Step, StepTaken] = field(default_factory=dict)

    def after(self, ended: StepEnded) -> "Steps":
        """Return them with one more."""
        before = self.taken.get(ended.step, StepTaken())
        now = StepTaken(
            times=before.times + 1,
            seconds=before.seconds + ended.seconds,
            is_done=ended.is_done,
            came_to=ended.came_to or before.came_to,
        )
        return replace(self, taken={**self.taken, ended.step: now})

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """Return them JSON-ready, in their order, those not taken yet too."""
        return [_row(step, self.taken.get(step, StepTaken())) for step in Step]


def _row(step: Step, taken: StepTaken) -> Mapping[str, Any]:
    status = "done" if taken.is_done else CUT
    return {
        "step": str(step),
        "status": status if taken.times else "open",
        "times": taken.times,
        "seconds": round(taken.seconds, 3),
        "came_to": taken.came_to,
    }


def workflow_line(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return in a line how long the steps took that took some time, or were cut short."""
    taken = (row for row in rows if row["seconds"] >= SHOWN_S or row["status"] == CUT)
    return ", ".join(
        f"{row['step']} {row['seconds']:.1f} s" + (" (cut short)" if row["status"] == CUT else "")
        for row in taken
    )


__all__ = ["CUT", "SHOWN_S", "Step", "StepEnded", "StepTaken", "Steps", "workflow_line"]
