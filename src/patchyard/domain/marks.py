"""What a plan's state keeps of its checkpoints, so that it can go back to one."""

from typing import NamedTuple

from patchyard.domain.checkpoint import Trigger
from patchyard.domain.decision import Decision
from patchyard.domain.events import ChangeSetCaptured, Validated
from patchyard.domain.plan import Phase


class Past(NamedTuple):
    """The part of a plan's state that a rollback brings back."""

    phase: Phase
    attempt_starts: int
    turn: int
    calls_of_turn: int
    rounds: int
    decisions: tuple[Decision, ...]
    decision_root_id: str | None
    strategy: str
    summary: str
    changeset: ChangeSetCaptured | None
    validation: Validated | None


class Mark(NamedTuple):
    """One checkpoint that the plan can go back to."""

    checkpoint_id: str
    version: int  # of its event
    trigger: Trigger
    turn: int
    call_id: str
    tool: str
    files: int
    stored: int
    is_fuzzy: bool
    past: Past


__all__ = ["Mark", "Past"]
