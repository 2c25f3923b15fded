"""Real time and real chance."""

import secrets
import time

from patchyard.domain.ids import RANDOM_BITS, ulid


class SystemClock:
    """contracts.clock.Clock from the machine; ids increase within the process."""

    def __init__(self) -> None:
        self._last = (0, 0)

    def now(self) -> float:
        """See contracts.clock.Clock."""
        return time.time()

    def monotonic(self) -> float:
        """See contracts.clock.Clock."""
        return time.monotonic()

    def new_id(self) -> str:
        """See contracts.clock.Clock."""
        stamp = int(time.time() * 1000)
        if stamp <= self._last[0]:
            self._last = (self._last[0], self._last[1] + 1)
        else:
            self._last = (stamp, secrets.randbits(RANDOM_BITS - 1))
        return ulid(*self._last)


__all__ = ["SystemClock"]
