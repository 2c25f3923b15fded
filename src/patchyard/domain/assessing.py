"""What a strategy says of its task: its kind and how large it is, and what follows from that (C18).

A model says both in fixed words, whatever language the task is written in. Money is never raised by
what a model says, and no limit that a person, a project, a file or a role set is touched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from patchyard.domain.analysis import KINDS, SIZES, Complexity, TaskAnalysed, TaskKind
from patchyard.domain.budget import PlanLimits, Spent
from patchyard.domain.limit_settings import BOUNDS, LimitSettings, shown, within

W = TypeVar("W", bound=StrEnum)

ADJUSTABLE = ("usd", "steps", "seconds")  # unset limits that a complexity may move
LOW_USD = 2.5  # that a small task has left at most
LOW_STEPS = 100  # likewise
HIGH_STEPS = 400
HIGH_SECONDS = 7200.0
UNITS = {"usd": " USD", "steps": " steps", "seconds": ""}  # of what `shown` returns
ROLES: Mapping[TaskKind, str] = {
    TaskKind.DESIGN: "architect",
    TaskKind.REVIEW: "reviewer",
    TaskKind.TESTS: "tester",
}
"""The shipped role that a kind of task is for; the developer does the others."""
DEVELOPER = "developer"


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What an actor's strategy says of its task. None: it does not say."""

    kind: TaskKind | None = None
    complexity: Complexity | None = None


@dataclass(frozen=True, kw_only=True)
class TaskAssessed:
    """What the strategy says of the task, and what follows from it."""

    kind: TaskKind | None = None
    complexity: Complexity | None = None
    role: str = ""  # that is proposed; empty: none is
    limits: PlanLimits | None = None  # from now on, of those left unset; None: as they were


AnalysisEvent = TaskAnalysed | TaskAssessed


def read_assessment(kind: Any, complexity: Any) -> tuple[Assessment, str]:
    """Read both as a model writes them; return also what is wrong with them, else nothing.

    None and empty texts say nothing. Words count without case, spaces, hyphens and underscores.
    """
    kinds = {_plain(each): each for each in KINDS}
    sizes = {_plain(each): each for each in SIZES}
    read_kind, kind_problem = _read("kind", kind, kinds)
    size, size_problem = _read("complexity", complexity, sizes)
    problems = "; ".join(filter(None, (kind_problem, size_problem)))
    return Assessment(kind=read_kind, complexity=size), problems


def _read(name: str, said: Any, known: Mapping[str, W]) -> tuple[W | None, str]:
    if said is None or (isinstance(said, str) and not said.strip()):
        return None, ""
    found = known.get(_plain(said)) if isinstance(said, str) else None
    if found is not None:
        return found, ""
    there = ", ".join(known.values())
    return None, f"the plan's `{name}` is {str(said)[:60]!r}, and must be one of: {there}"


def _plain(word: str) -> str:
    return "".join(letter for letter in word.lower() if letter not in " -_")


def role_for(kind: TaskKind | None, role: str) -> str:
    """Return the shipped role that a task of `kind` is for, empty where it is `role` already."""
    if kind in {None, TaskKind.QUESTION, TaskKind.UNKNOWN}:
        return ""
    wanted = ROLES.get(kind, DEVELOPER)
    return "" if wanted == role else wanted


def limits_for(
    complexity: Complexity | None,
    limits: PlanLimits,
    *,
    adjustable: tuple[str, ...],
    spent: Spent,
    most: LimitSettings,
) -> PlanLimits:
    """Return a plan's limits for a task that large: of those in `adjustable`, each anew.

    What is lowered is counted from what is `spent`; what is raised stays within `most`, what the
    role may use. An unknown complexity gives what is usual.
    """
    usual = PlanLimits()
    wanted: dict[str, Any] = {name: getattr(usual, name) for name in ADJUSTABLE}
    if complexity is Complexity.LOW:
        wanted["steps"] = min(wanted["steps"], spent.steps + LOW_STEPS)
        wanted["usd"] = min(wanted["usd"], round(spent.usd + LOW_USD, 2))
    elif complexity is Complexity.HIGH:
        wanted |= {"steps": HIGH_STEPS, "seconds": HIGH_SECONDS}
    anew = replace(limits, **{name: wanted[name] for name in adjustable})
    return within(anew, most)


def consequences(assessed: TaskAssessed) -> tuple[str, ...]:
    """Say in words what follows from an assessment: the limits from now on, and a role."""
    told = []
    if assessed.limits is not None:
        said = {name: getattr(assessed.limits, name) for name in BOUNDS.values()}
        moved = [
            f"{shown(key, said[name])}{UNITS[name]}"
            for key, name in BOUNDS.items()
            if name in ADJUSTABLE and said[name] is not None
        ]
        told.append(f"unset limits: {', '.join(moved)}")
    if assessed.role:
        told.append(f"the role {assessed.role} is for such tasks (`agents run --role`)")
    return tuple(told)


__all__ = [
    "ADJUSTABLE",
    "ROLES",
    "AnalysisEvent",
    "Assessment",
    "TaskAssessed",
    "consequences",
    "limits_for",
    "read_assessment",
    "role_for",
]
