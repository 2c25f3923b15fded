"""Other roles that look at a plan's proven work, each in a plan of its own: as events."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Used:
    """What somebody else's plan used for this one."""

    usd: float = 0.0
    is_priced: bool = True
    input_tokens: int = 0
    output_tokens: int = 0
    steps: int = 0
    calls: int = 0  # of tools


@dataclass(frozen=True, kw_only=True)
class ColleagueAsked:
    """Another role was asked to look at a result; it does so in plan `colleague_id`."""

    role: str
    colleague_id: str
    changeset_id: str  # the result


@dataclass(frozen=True, kw_only=True)
class ColleagueHeard(Used):
    """What the other role came to is taken in, and what it used counts as this plan's."""

    role: str
    colleague_id: str
    changeset_id: str  # that it looked at
    verdict: str = ""  # of a reviewer
    added: tuple[str, ...] = ()  # paths that were taken over from it


@dataclass(frozen=True, kw_only=True)
class ColleagueCounted(Used):
    """What a colleague used that was stopped before it could be heard; all of it so far."""

    colleague_id: str


@dataclass(frozen=True, kw_only=True)
class Colleagues:
    """Who was asked and heard in this attempt."""

    asked: ColleagueAsked | None = None  # and not heard yet
    heard: tuple[ColleagueHeard, ...] = field(default=())  # oldest first
    counted: Mapping[str, ColleagueCounted] = field(default_factory=dict)
    """By plan, of all attempts: what is in this plan's own count already."""

    @property
    def calls(self) -> int:
        """Calls of tools that others made for this plan."""
        return sum(each.calls for each in self.counted.values())

    def last(self, role: str) -> ColleagueHeard | None:
        """Return what a role came to last."""
        return next((each for each in reversed(self.heard) if each.role == role), None)


ColleagueEvent = ColleagueAsked | ColleagueCounted | ColleagueHeard

__all__ = [
    "ColleagueAsked",
    "ColleagueCounted",
    "ColleagueEvent",
    "ColleagueHeard",
    "Colleagues",
    "Used",
]
