"""Sizes as people write them. All units are of 1024."""

import re
from typing import Any

from patchyard.domain.errors import quoted
from patchyard.domain.faults import Fault, Place

UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGTkmgt])(?:iB)?)?", re.ASCII)
MOST = 2**63 - 1  # bytes that any counter here holds


def bytes_of(value: Any, place: Place) -> int:
    """Return the bytes of `1000`, `512M`, `512m`, `512 MiB`, `1.5GiB`. Raises Fault."""
    found = None if isinstance(value, bool) else SIZE.fullmatch(str(value).strip())
    if found is None:
        raise Fault(place, f"{quoted(value)} is no size", hint="write it like 512M, 2G or 1.5GiB")
    size = float(found[1]) * UNITS[(found[2] or "").upper()]
    if size > MOST:
        most = shown_bytes(1024**4 * 1024)
        raise Fault(place, f"{quoted(value)} is more than any machine has", hint=f"try {most}")
    return int(size)


def shown_bytes(size: float) -> str:
    """Return a size as people read it: the largest unit that it fills, at most one digit more."""
    unit = next((name for name, of in reversed(UNITS.items()) if size >= of), "")
    number = f"{size / UNITS[unit]:.1f}".removesuffix(".0")
    return f"{number} {unit}iB" if unit else f"{size:g} bytes"


__all__ = ["MOST", "SIZE", "UNITS", "bytes_of", "shown_bytes"]
