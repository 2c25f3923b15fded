"""What a devcontainer.json asks of the machine that it runs on, as limits. Pure.

Keys and units: the Development Container Specification's metadata reference.
"""

import re
from collections.abc import Mapping
from typing import Any

from patchyard.domain.environment_limits import EnvironmentLimits, within
from patchyard.domain.errors import quoted
from patchyard.domain.faults import Fault
from patchyard.domain.numerals import number_of

NEEDS = "hostRequirements"
KEYS = ("cpus", "memory", "storage")  # of them, that count
SIZE = re.compile(r"(\d+)\s*(tb|gb|mb|kb)?", re.IGNORECASE | re.ASCII)
UNITS = {"": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3, "tb": 1024**4}


def host_requirements_of(needs: Mapping[str, Any]) -> EnvironmentLimits:
    """Return the limits that `needs` come to. Raises Fault for what no environment can have."""
    return EnvironmentLimits(
        cpus=_asked(needs, "cpus", "cpus"),
        disk=_asked(needs, "storage", "disk"),
        memory=_asked(needs, "memory", "memory"),
    )


def unmet_in(needs: Mapping[str, Any]) -> list[str]:
    """Return what is asked for and counts for nothing, such as `hostRequirements.gpu`."""
    return [f"{NEEDS}.{key}" for key, said in needs.items() if said and key not in KEYS]


def _asked(needs: Mapping[str, Any], key: str, limit: str) -> Any:
    said = needs.get(key)
    if said is None:
        return None
    number = _count(said, key) if key == "cpus" else _size(said, key)
    return within(limit, number, (NEEDS, key), said=said)


def _size(said: Any, key: str) -> float:
    found = SIZE.fullmatch(str(said).strip())
    if found is None:
        raise Fault((NEEDS, key), f"{quoted(said)} is no size such as 8gb")
    return float(found[1]) * UNITS[(found[2] or "").lower()]


def _count(said: Any, key: str) -> float:
    number = None if isinstance(said, str) else number_of(said)
    if number is None:
        raise Fault((NEEDS, key), f"{quoted(said)} is no number")
    return number


__all__ = ["KEYS", "NEEDS", "SIZE", "UNITS", "host_requirements_of", "unmet_in"]
