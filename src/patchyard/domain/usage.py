"""What calls, environments and plans have used: counters as read, and what they come to. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from patchyard.domain.tooling import finite

MOST = frozenset({"memory_bytes", "processes", "connections"})  # of several the highest counts


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What somebody outside an environment has counted since it began; None: nobody counts it."""

    cpu_s: float | None = None
    memory_bytes: int | None = None  # the most at once since the last reading
    processes: int | None = None  # the most at once
    written_bytes: int | None = None  # to disks
    ended_for_memory: int | None = None  # processes
    in_files_bytes: int | None = None  # of memory; counted where processes were ended for it
    refused_processes: int | None = None
    disk_bytes: int | None = None  # by which the workspace has grown, as last looked
    has_room: bool = True  # whether the disk that the workspace lies on is not full
    memory_now: int = 0  # of all together, at a look; 0: the kernel bounds it, or none was made
    processes_now: int = 0  # likewise
    is_due: bool = False  # the workspace may have grown so much that a look is due


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one call used, one environment, or one plan. None: not known."""

    cpu_s: float | None = None
    memory_bytes: int | None = None  # the most at once
    processes: int | None = None  # the most at once, since the environment began
    written_bytes: int | None = None  # to the disks that the workspace and mounts lie on
    output_bytes: int | None = None  # of commands
    wall_s: float | None = None  # of commands
    network_bytes: int | None = None  # through the gateways
    connections: int | None = None  # through the gateways, at once
    claimed: tuple[str, ...] = ()  # of these only the toolbox says so


@dataclass(frozen=True, kw_only=True)
class Health:
    """How an environment is."""

    is_alive: bool
    answers: bool  # somebody listens where its toolbox should
    since: float | None = None  # when it began, in seconds since the epoch
    limit: str = ""  # which limit ended it, as far as that is known
    ending: str = ""  # how it ended, as a clause of a message; empty: not known


ALWAYS_CLAIMED = ("output_bytes", "wall_s")
NOTHING = Usage()
NUMBERS = tuple(each.name for each in fields(Usage) if each.name != "claimed")


def spent(before: Reading, after: Reading, said: Mapping[str, Any]) -> Usage:
    """Return what a call used between two readings.

    `said` is the toolbox's result; its figures count where nothing outside counts. What a look saw
    in between is the least that was used: the toolbox's figure stands where it is higher.
    """
    inside = said.get("usage")
    claims: Mapping[str, Any] = inside if isinstance(inside, Mapping) else {}
    values: dict[str, Any] = {
        "cpu_s": _rounded(_difference(before.cpu_s, after.cpu_s)),
        "memory_bytes": after.memory_bytes,
        "processes": after.processes,
        "written_bytes": _difference(before.written_bytes, after.written_bytes),
    }
    seen = {"memory_bytes": after.memory_now, "processes": after.processes_now}
    claimed = []
    for name in [name for name, value in values.items() if value is None]:
        least, claim = seen.get(name, 0), _claim(name, claims.get(name))
        if least and least >= (claim or 0):
            values[name] = least
        else:
            values[name] = claim
            claimed.append(name)
    values["output_bytes"] = _output(said)
    values["wall_s"] = _claim("wall_s", said.get("elapsed_s"))
    claimed = [name for name in (*claimed, *ALWAYS_CLAIMED) if values[name] is not None]
    return Usage(**values, claimed=tuple(sorted(claimed)))


def _difference(before: float | None, after: float | None) -> Any:
    if after is None:
        return None
    return max(0, after - (before or 0))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def _claim(name: str, value: object) -> float | int | None:
    number = finite(value, -1.0)
    if number < 0:
        return None
    return round(number, 4) if name.endswith("_s") else int(number)


def _output(said: Mapping[str, Any]) -> int | None:
    sizes = [_claim("output_bytes", said.get(f"{name}_bytes")) for name in ("stdout", "stderr")]
    known = [int(size) for size in sizes if size is not None]
    return sum(known) if known else None


def together(first: Usage, second: Usage) -> Usage:
    """Return what two come to that were used one after the other, or side by side."""
    return _combined(first, second, lambda name: max if name in MOST else _sum)


def at_least(first: Usage, second: Usage) -> Usage:
    """Return the higher of two figures of the same use."""
    return _combined(first, second, lambda _name: max)


def _combined(first: Usage, second: Usage, way: Any) -> Usage:
    values: dict[str, Any] = {}
    for name in NUMBERS:
        known = [n for n in (getattr(first, name), getattr(second, name)) if n is not None]
        values[name] = way(name)(*known) if len(known) > 1 else known[0] if known else None
    claimed = {*first.claimed, *second.claimed}
    return Usage(**values, claimed=tuple(sorted(claimed)))


def _sum(one: float, other: float) -> float:
    return round(one + other, 4)


def of_environment(reading: Reading, calls: Usage) -> Usage:
    """Return what a whole environment used: as counted outside, and what its calls came to."""
    counted = Usage(
        cpu_s=_rounded(reading.cpu_s),
        memory_bytes=reading.memory_bytes,
        processes=reading.processes,
        written_bytes=reading.written_bytes,
    )
    return at_least(counted, calls)


def usage_json(usage: Usage) -> dict[str, Any]:
    """Return it as the journal has it, without what is not known: of every command, so quickly."""
    own = vars(usage)
    found = {name: own[name] for name in NUMBERS if own[name] is not None}
    return {**found, "claimed": list(usage.claimed)} if usage.claimed else found


def usage_data(usage: Usage) -> dict[str, Any]:
    """Return it as programs see it."""
    return {**asdict(usage), "claimed": list(usage.claimed)}


__all__ = [
    "ALWAYS_CLAIMED",
    "MOST",
    "NOTHING",
    "NUMBERS",
    "Health",
    "Reading",
    "Usage",
    "at_least",
    "of_environment",
    "spent",
    "together",
    "usage_data",
    "usage_json",
]
