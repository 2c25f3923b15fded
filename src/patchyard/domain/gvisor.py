"""What gVisor's version says of it. Pure."""

import re

SAFE = "2023-01-01"
"""From here on it keeps a program from what its toolbox has open; that of 2022-12-19 does not."""
IN_GVISOR = "in gVisor"
CURE = "install a release of gVisor from 2023 or newer, and name it in the engine's daemon.json"
WHAT_FOLLOWS = (
    "which does not keep agent code from the toolbox's descriptors and variables"
    " (a result that it forges ends the environment)"
)
_DAY = re.compile(r"(?<!\d)(20\d\d)(\d\d)(\d\d)")


def day_of(version: str) -> str:
    """Return the day (YYYY-MM-DD) that a version names; empty where it names none."""
    found = _DAY.search(version)
    return "-".join(found.groups()) if found else ""


def is_old(day: str) -> bool:
    """Whether gVisor of that day lets agent code open what its toolbox has open."""
    return bool(day) and day < SAFE


def note_of(day: str) -> str:
    """Return what is said of an environment in gVisor of that day; empty: it is not known."""
    if not is_old(day):
        return IN_GVISOR
    return f"{IN_GVISOR} of {day}, {WHAT_FOLLOWS}; {CURE}"


__all__ = ["CURE", "IN_GVISOR", "SAFE", "WHAT_FOLLOWS", "day_of", "is_old", "note_of"]
