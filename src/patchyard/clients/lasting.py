"""A counter of a control group that is known after the group is gone.

Where a limit ends all of an environment its group goes within a tenth of a second: too soon for
whoever hears of that end. So a thread reads the counter all the while; with control groups of
version 1 the kernel tells nobody when it changes.
"""

import os
import threading
from collections.abc import Callable

LOOK_S = 0.02  # the group stays at least twice as long after its last process has ended


class Lasting:
    """The number in one file of the kernel's, kept from the last time that it could be read."""

    def __init__(self, path: str, parse: Callable[[bytes], int]) -> None:
        """Raises OSError where there is no such file."""
        self._parse = parse
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._end = threading.Event()
        self._lock = threading.Lock()  # a look in another thread may outlive its meter
        self._number: int | None = None
        self._renew()
        self._waiting = threading.Thread(target=self._wait, daemon=True)
        self._waiting.start()

    def _renew(self) -> bool:
        """Read it; False where that is not possible any more."""
        try:
            with self._lock:
                self._number = self._parse(os.pread(self._file, 4096, 0))
        except (OSError, ValueError, StopIteration):
            return False
        return True

    def _wait(self) -> None:
        while not self._end.wait(LOOK_S):
            if not self._renew():
                return

    def read(self) -> int | None:
        """Return the number as it is now, or last was."""
        self._renew()
        return self._number

    def close(self) -> None:
        """Release what it holds."""
        if not self._end.is_set():
            self._end.set()
            self._waiting.join()
            with self._lock:
                os.close(self._file)
                self._file = -1


__all__ = ["LOOK_S", "Lasting"]
