"""Durations as people write them."""

from typing import Any

from patchyard.domain.errors import UsageError, quoted
from patchyard.domain.faults import Fault, Place
from patchyard.domain.numerals import number_of, shown_number

HINT = "write it like 90s, 30m or 1h; a number alone is seconds"


def seconds_of(value: Any, place: Place) -> float:
    """Return the seconds of `90`, `90s`, `30m`, `1h`. Raises Fault."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    text = str(value).strip()
    unit = units.get(text[-1:], 1.0)
    number = text[:-1] if text[-1:] in units else text
    found = number_of(number)
    seconds = -1.0 if found is None else found * unit
    if isinstance(value, bool) or not 0 < seconds < float("inf"):
        raise Fault(place, f"{quoted(text)} is not a duration", hint=HINT)
    return seconds


def parse_duration(text: str) -> float:
    """Return the seconds of `90s`, `30m`, `1h`. Raises UsageError."""
    try:
        return seconds_of(text, ())
    except Fault as fault:
        raise UsageError(fault.problem, hint=fault.hint) from fault


def duration(seconds: float) -> str:
    """Return seconds as people write them: 90s, 30m, 1h; the largest unit that is whole."""
    units = {"h": 3600, "m": 60}
    unit = next((name for name, size in units.items() if seconds % size == 0), "s")
    number = seconds / units.get(unit, 1)
    return f"{shown_number(number) if number >= 1 else f'{number:g}'}{unit}"


__all__ = ["HINT", "duration", "parse_duration", "seconds_of"]
