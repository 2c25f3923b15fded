"""Checkpoints: what lay in a workspace at one moment, and how a plan comes back to it."""

from dataclasses import dataclass
from enum import StrEnum

from patchyard.domain.body import Body

REPEATS = 3  # how often a call whose environment was lost is run again


class Trigger(StrEnum):
    """Why a checkpoint was made (B+, `checkpoints.auto_create_on`)."""

    BEFORE_TOOL = "before_tool_execute"
    AFTER_TOOL = "after_tool_execute"
    ON_ERROR = "on_error"
    ON_SUBPLAN = "on_subplan_spawn"
    PHASE = "phase"  # at the end of a round of work; always


DEFAULT_TRIGGERS = (Trigger.BEFORE_TOOL, Trigger.ON_ERROR)
"""When nothing is set (issue 3)."""


@dataclass(frozen=True, kw_only=True)
class CheckpointMade:
    """The plan's files can be brought back to this moment. Its blobs were on disk before."""

    checkpoint_id: str
    trigger: Trigger
    turn: int
    manifest: Body  # a Delta over the manifest of `previous`
    previous: str = ""  # checkpoint; empty: the delta is the whole manifest
    call_id: str = ""  # of the call before (or after) which it was made
    tool: str = ""
    files: int = 0  # entries of the whole manifest
    stored: int = 0  # bytes that were new in the store
    is_fuzzy: bool = False  # something may have written meanwhile


@dataclass(frozen=True, kw_only=True)
class RolledBack:
    """Files and conversation go back to a checkpoint; what lies between is passed over."""

    checkpoint_id: str
    version: int  # of that checkpoint's event
    reason: str = ""
    is_repeat: bool = False  # the calls taken back are carried out again, by the same turn


@dataclass(frozen=True, kw_only=True)
class CallUndone:
    """A call whose environment was lost: the files go back to the checkpoint before it."""

    call_id: str
    checkpoint_id: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class FilesRestored:
    """The files are those of the checkpoint."""

    checkpoint_id: str


@dataclass(frozen=True, kw_only=True)
class CallRepeated:
    """A call is about to be sent again, to another environment."""

    call_id: str
    environment_id: str
    number: int  # 1, 2, 3: how often by now


CheckpointEvent = CheckpointMade | RolledBack | CallUndone | FilesRestored | CallRepeated

__all__ = [
    "DEFAULT_TRIGGERS",
    "REPEATS",
    "CallRepeated",
    "CallUndone",
    "CheckpointEvent",
    "CheckpointMade",
    "FilesRestored",
    "RolledBack",
    "Trigger",
]
