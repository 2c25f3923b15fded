"""Clocks for what counts only once it is old, and the moment from which a change has a new time."""

import time
from pathlib import Path

from patchyard.clients.listings import clocks

__all__ = ["HOUR_NS", "later", "wait_for_tick"]

HOUR_NS = 3600 * 10**9
COARSE = 5  # CLOCK_REALTIME_COARSE, by which kernels date changes


def later() -> tuple[int, int]:
    """Return the clocks as they will be in an hour: all that was made is old then."""
    now, since_boot = clocks()
    return now + HOUR_NS, since_boot + HOUR_NS


def wait_for_tick(*folders: Path) -> None:
    """Wait until the next change of folders has another time than the last: some milliseconds."""
    last = max(folder.stat().st_ctime_ns for folder in folders)
    while time.clock_gettime_ns(COARSE) <= last:
        pass
