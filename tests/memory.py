"""How much memory this process takes at most while a test does something, above what it had.

What was freed before is given back to the kernel first, or it would be taken again unseen. Room
between what is in use within a page cannot be given back: a process that has grown counts a few
megabytes too little.
"""

import ctypes
import gc
from pathlib import Path

__all__ = ["Growth"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
BEGIN_ANEW = "5"  # VmHWM is then what is resident now, proc(5)


class Growth:
    """Begins to count where it is made."""

    def __init__(self) -> None:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        CLEAR.write_text(BEGIN_ANEW)
        self._before = _bytes("VmRSS")

    @property
    def most(self) -> int:
        """The most bytes above the beginning that were resident at once until now."""
        return _bytes("VmHWM") - self._before


def _bytes(name: str) -> int:
    rows = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(rows[name].split()[0]) * 1024
