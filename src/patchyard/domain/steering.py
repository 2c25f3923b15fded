"""What people and profiles say about a plan's way: events, and what they come to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

FINDINGS_KEPT = 3  # of earlier attempts, for the next strategy
GUIDANCE_CHARS = 8000  # of one word of guidance
SHOWN_CHARS = 10_000  # of a call or a strategy that is shown for approval


class Subject(StrEnum):
    """What an approval is about."""

    PHASE = "phase"
    CALL = "call"


@dataclass(frozen=True, kw_only=True)
class Guided:
    """Somebody gave guidance; the actor is told with its next turn, once."""

    guidance_id: str
    text: str  # at most GUIDANCE_CHARS
    source: str = "prompt"  # the command that gave it
    word: int = 0  # its number among the words to the plan's owner; 0: recorded directly


@dataclass(frozen=True, kw_only=True)
class Paused:
    """Somebody paused the plan; nobody goes on with it until it is resumed."""

    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class PauseEnded:
    """Somebody resumed the plan."""


@dataclass(frozen=True, kw_only=True)
class ApprovalAsked:
    """The plan cannot go on before somebody approves."""

    approval_id: str
    subject: Subject
    name: str  # of the phase or the tool
    digest: str  # SHA-256 of what exactly is asked: place, name, arguments
    shown: str = ""  # what people decide by, at most SHOWN_CHARS
    why: str = ""  # which setting or profile asks


@dataclass(frozen=True, kw_only=True)
class Approved:
    """Somebody approved what was asked."""

    approval_id: str
    digest: str
    by: str = ""  # how: a terminal, a command


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """Somebody rejected what was asked."""

    approval_id: str
    digest: str
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ApprovalUsed:
    """What was decided took effect: it counts for nothing else."""

    digest: str
    call_id: str = ""  # of the one call that it was for


@dataclass(frozen=True, kw_only=True)
class RetryPlanned:
    """A failure that passes by itself: the same is tried again after a while."""

    code: str  # of the error
    message: str
    number: int  # 1, 2, 3 ... of this step
    most: int  # 0: as long as the plan's time allows
    wait_s: float


@dataclass(frozen=True, kw_only=True)
class Reverted:
    """The plan goes back; what its last attempt came to is told to the next one."""

    to_phase: str  # strategize: a new strategy; execute: the same one, carried out anew
    reason: str = ""
    findings: str = ""  # of a proof that failed
    by: str = ""  # a command, or the automation profile


@dataclass(frozen=True, kw_only=True)
class Commented:
    """Somebody said something about a line of the change set; a retry is told."""

    path: str
    line: int  # 1, 2, 3 ... in the file as it is after the change
    text: str
    changeset_id: str


@dataclass(frozen=True, kw_only=True)
class Forked:
    """What stands before it came from another plan, and was paid for there."""

    parent_id: str
    version: int  # of the parent's last event that was taken over


SteeringEvent = (
    Guided
    | Paused
    | PauseEnded
    | ApprovalAsked
    | Approved
    | Rejected
    | ApprovalUsed
    | RetryPlanned
    | Reverted
    | Commented
    | Forked
)


@dataclass(frozen=True, kw_only=True)
class Steered:
    """All that the events above come to."""

    paused: Paused | None = None
    heard: int = 0  # number of the last word that was taken in
    guidance: tuple[Guided, ...] = ()  # not yet told in a turn that was taken
    told: int = 0  # how many of them the turn that is asked for holds
    asked: ApprovalAsked | None = None  # without an answer yet
    verdicts: Mapping[str, Approved | Rejected] = field(default_factory=dict)  # by digest, unused
    retry: RetryPlanned | None = None  # while it is waited
    findings: tuple[str, ...] = ()  # of earlier attempts, newest last
    comments: tuple[Commented, ...] = ()  # on lines of change sets, oldest first
    is_stale: bool = False  # the workspace holds the work of an attempt that was given up


def shown_text(text: str) -> str:
    """Return what people decide by; what does not fit is said to be there."""
    if len(text) <= SHOWN_CHARS:
        return text
    left = len(text) - SHOWN_CHARS
    half = SHOWN_CHARS // 2
    return f"{text[:half]} [{left:,} characters are not shown here] {text[-half:]}"


def spoken(note: str, guidance: str) -> str:
    """Return what an actor is told with a turn: the engine's word, then people's."""
    return "\n\n".join(part for part in (note, guidance) if part)


def guidance_text(guided: tuple[Guided, ...]) -> str:
    """Return pending guidance as the actor reads it; empty when there is none."""
    return "\n\n".join(f"Guidance from the person who asked for this: {g.text}" for g in guided)


__all__ = [
    "FINDINGS_KEPT",
    "GUIDANCE_CHARS",
    "SHOWN_CHARS",
    "ApprovalAsked",
    "ApprovalUsed",
    "Approved",
    "Commented",
    "Forked",
    "Guided",
    "PauseEnded",
    "Paused",
    "Rejected",
    "RetryPlanned",
    "Reverted",
    "Steered",
    "SteeringEvent",
    "Subject",
    "guidance_text",
    "shown_text",
    "spoken",
]
