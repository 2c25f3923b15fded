"""Places made before a plan needs them: what one must be like to be given to it, and how many."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchyard.domain.changeset import Base
from patchyard.domain.durations import seconds_of
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Site
from patchyard.domain.faults import Fault, Place, check_keys
from patchyard.domain.plan import PlanSpec

KEYS = ("size", "total", "age")
LONGEST_S = 1800.0  # well below the hour after which bases and layers go that no plan needs

POOLED = frozenset(
    {
        ExecutionEnvironment.CONTAINER,
        ExecutionEnvironment.PROCESS,
        ExecutionEnvironment.VM,
    }
)
"""Kinds whose places show no path of this machine that names the plan they were started for."""


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """How many places wait, and how long."""

    size: int = 1  # of one project; 0: none are made
    total: int = 4  # of all projects
    age: float = 600.0  # seconds until one that nobody took is ended


@dataclass(frozen=True, kw_only=True)
class Wish:
    """All that decides what a plan's tree holds and what its environment is started with.

    A place is given to a plan whose wish equals the one that it was made for, and to no other.
    Which programs are found there is asked when places are prepared, so while a plan is planned:
    it takes longer than to give one away.
    """

    project: str  # its name, or the path of the checkout
    base: Base
    layers: tuple[str, ...]  # folders of setup
    folders: tuple[str, ...]  # places for mounts
    site: Site
    environment: EnvironmentSpec  # of no plan, over a tree that lies nowhere
    programs: Mapping[str, str] = field(default_factory=dict, compare=False)  # marks of them
    plan: PlanSpec = field(compare=False)  # the first that wished so


@dataclass(frozen=True, kw_only=True)
class PoolRow:
    """How many places of one project there are in a pool."""

    project: str
    ready: int = 0
    making: int = 0


@dataclass(frozen=True, kw_only=True)
class PoolState:
    """How the pool of one worker stands."""

    worker: str
    size: int  # wished of one project
    total: int  # of all projects, at most
    projects: tuple[PoolRow, ...] = ()

    @property
    def said(self) -> str:
        """What it is, for people."""
        rows = [
            f"{row.project} {row.ready} of {self.size} ready"
            + (f", {row.making} being made" if row.making else "")
            for row in self.projects
        ]
        return "; ".join(rows) or f"nothing waits yet ({self.size} a project, {self.total} in all)"


def pooling_of(value: Any, place: Place) -> Pooling:
    """Return what a mapping says. Raises Fault."""
    body = check_keys(value, place, KEYS)
    counts = {key: _count(body[key], (*place, key)) for key in KEYS[:2] if key in body}
    age = seconds_of(body["age"], (*place, "age")) if "age" in body else Pooling.age
    if not 0 < age <= LONGEST_S:
        raise Fault((*place, "age"), f"must be more than 0 and at most {LONGEST_S / 60:g}m")
    return Pooling(**counts, age=age)


def _count(value: Any, place: Place) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Fault(place, "must be a whole number, 0 or more")
    return value


def relocated(value: Any, old: str, new: str) -> Any:
    """Return plain data with each path that is `old`, or lies in it, in `new` instead."""
    if isinstance(value, str):
        is_there = value == old or value.startswith(f"{old}/")
        return new + value[len(old) :] if is_there else value
    if isinstance(value, Mapping):
        return {key: relocated(item, old, new) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [relocated(item, old, new) for item in value]
    return value


__all__ = [
    "KEYS",
    "LONGEST_S",
    "POOLED",
    "PoolRow",
    "PoolState",
    "Pooling",
    "Wish",
    "pooling_of",
    "relocated",
]
