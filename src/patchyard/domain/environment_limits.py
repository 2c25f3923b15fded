"""What an environment may use, as settings, options and resources say it. Pure.

Who says it first wins: options and variables, the linked resource, the project's context, files.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from patchyard.domain.durations import seconds_of
from patchyard.domain.environment import Limits
from patchyard.domain.errors import quoted, shortened
from patchyard.domain.faults import Fault, Place, check_keys, unplaced
from patchyard.domain.numerals import number_of, shown_number
from patchyard.domain.sizes import bytes_of, shown_bytes

KEY = "environment_limits"  # in settings and contexts
DAY = 86_400  # seconds
WHOLE = re.compile(r"-?\d+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class EnvironmentLimits:
    """One place's say; None is "not said". Sizes are bytes, times are seconds."""

    connections: int | None = None  # through the network gateways, at once
    cpu_time: float | None = None  # of one command with all that it starts
    cpus: float | None = None  # processors at once
    disk: int | None = None  # by which the workspace may grow
    file_size: int | None = None  # of one file
    memory: int | None = None  # of all together
    network: int | None = None  # through the gateways, both ways
    open_files: int | None = None  # of one process
    output: int | None = None  # kept of one call, per stream
    processes: int | None = None  # at once, threads included
    temporary: int | None = None  # of each folder that lies in memory
    wall: float | None = None  # of one command


@dataclass(frozen=True)
class Measure:
    """What a limit counts in, and between which values it makes sense."""

    read: Callable[[Any, Place], float]
    show: Callable[[float], str]
    least: float
    most: float
    field: str  # of domain.environment.Limits


def _count(value: Any, place: Place) -> float:
    text = str(value).strip()
    if isinstance(value, bool) or not WHOLE.fullmatch(text):
        raise Fault(place, f"{quoted(value)} is no whole number", hint="write it like 256")
    return float(text)


def _number(value: Any, place: Place) -> float:
    number = number_of(value)
    if number is None:
        raise Fault(place, f"{quoted(value)} is no number", hint="write it like 2 or 1.5")
    return number


def _size(value: Any, place: Place) -> float:
    return 0 if _is_nothing(value) else bytes_of(value, place)


def _time(value: Any, place: Place) -> float:
    return 0 if _is_nothing(value) else seconds_of(value, place)


def _is_nothing(value: Any) -> bool:
    """Whether it is written as nothing, or as less: `0s`, `-1G`."""
    text = str(value).strip()
    return bool(text) and (text.startswith("-") or not text.strip("0.smhdkgtKMGTiB"))


def _shown_time(seconds: float) -> str:
    days, rest = divmod(seconds, DAY)
    return f"{shown_number(days)} d" if days and not rest else f"{shown_number(seconds)} s"


GIB = 1024**3
MEASURES: Mapping[str, Measure] = {
    "connections": Measure(_count, shown_number, 1, 65_536, "connections"),
    "cpu_time": Measure(_time, _shown_time, 1, 31_536_000, "cpu_seconds"),
    "cpus": Measure(_number, shown_number, 0.05, 1024, "cpus"),
    "disk": Measure(_size, shown_bytes, 1024**2, 1024 * 1024 * GIB, "disk_bytes"),
    "file_size": Measure(_size, shown_bytes, 64 * 1024, 1024 * 1024 * GIB, "file_bytes"),
    "memory": Measure(_size, shown_bytes, 32 * 1024**2, 1024 * 1024 * GIB, "memory_bytes"),
    "network": Measure(_size, shown_bytes, 1024, 1024 * 1024 * GIB, "network_bytes"),
    "open_files": Measure(_count, shown_number, 32, 1_048_576, "open_files"),
    "output": Measure(_size, shown_bytes, 1024, 16 * 1024**2, "output_bytes"),
    "processes": Measure(_count, shown_number, 16, 4_194_304, "processes"),
    "temporary": Measure(_size, shown_bytes, 64 * 1024, 1024 * 1024 * GIB, "temporary_bytes"),
    "wall": Measure(_time, _shown_time, 1, 31_536_000, "wall_s"),
}
"""The least of memory, processes and open files is what a toolbox and one shell need."""
NAMES = tuple(MEASURES)
_WHOLE = frozenset(NAMES) - {"cpu_time", "cpus", "wall"}


def environment_limits_of(value: Any, place: Place) -> EnvironmentLimits:
    """Return what a mapping says. Raises Fault, naming the key and the least or most value."""
    body = check_keys(value, place, NAMES)
    found = {key: _read(key, item, (*place, key)) for key, item in body.items() if item is not None}
    return EnvironmentLimits(**found)


def _read(name: str, value: Any, place: Place) -> Any:
    return within(name, MEASURES[name].read(value, place), place, said=value)


def within(name: str, number: float, place: Place, *, said: Any) -> Any:
    """Return `number`, as `said` somewhere, where the limit `name` may be so much. Raises Fault."""
    measure = MEASURES[name]
    least, most = measure.show(measure.least), measure.show(measure.most)
    wrong = f"not {shortened(str(said))}"
    if not number >= measure.least:
        raise Fault(place, f"must be {least} or more, {wrong}", hint=f"the least is {least}")
    if number > measure.most:
        raise Fault(place, f"must be {most} or less, {wrong}", hint=f"the most is {most}")
    return int(number) if name in _WHOLE else number


def of_words(words: Sequence[str]) -> EnvironmentLimits:
    """Return what `NAME=VALUE` words say, as an option is given them. Raises UsageError."""
    try:
        body = dict(_pair(word) for word in words)
        return environment_limits_of(body, ())
    except Fault as fault:
        said = f"--limit {fault.message}"
        raise unplaced(fault, said) from fault


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not value.strip():
        hint = f"NAME is one of: {', '.join(NAMES)}"
        raise Fault((), f"{quoted(word)} is not NAME=VALUE", hint=hint)
    return name.strip().replace("-", "_"), value.strip()


def merged(*said: EnvironmentLimits) -> EnvironmentLimits:
    """Return what several places come to; the first that says a limit wins."""
    found: dict[str, Any] = {}
    for each in said:
        found = {**given(each), **found}
    return EnvironmentLimits(**found)


def given(said: EnvironmentLimits) -> dict[str, Any]:
    """Return what is said, by name."""
    return {name: value for name, value in vars(said).items() if value is not None}


def shown(said: EnvironmentLimits) -> dict[str, str]:
    """Return what is said as people read it."""
    return {name: MEASURES[name].show(value) for name, value in given(said).items()}


def limits_for(*said: EnvironmentLimits) -> Limits:
    """Return what an environment is started with; what is not said has its default.

    Files in folders that lie in memory count as memory: where only that is bounded, one folder
    takes half of it at most, so that who fills it is told, and not the next command killed.
    """
    found = given(merged(*said))
    if "memory" in found and "temporary" not in found:
        found["temporary"] = min(Limits().temporary_bytes, found["memory"] // 2)
    return Limits(**{MEASURES[name].field: value for name, value in found.items()})


def in_force(said: EnvironmentLimits) -> EnvironmentLimits:
    """Return `said` with the defaults for the rest; None is what is not bounded."""
    limits = limits_for(said)
    values = {each.name: getattr(limits, MEASURES[each.name].field) for each in fields(said)}
    return EnvironmentLimits(**values)


__all__ = [
    "GIB",
    "KEY",
    "MEASURES",
    "NAMES",
    "EnvironmentLimits",
    "Measure",
    "environment_limits_of",
    "given",
    "in_force",
    "limits_for",
    "merged",
    "of_words",
    "shown",
    "within",
]
