"""Whether a provider is asked at all while it fails: a circuit breaker, as data. Pure.

Closed lets everybody through. Failures that say much (a refused key, a hang) open it at once,
others after some in a row; open lets nobody through for a while, longer each time. Then it is half
open: one request is let through, whose outcome closes or opens it.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

IN_A_ROW = 3  # failures that say little open it
FIRST_S = 5.0  # of being open
FACTOR = 2.0
LONGEST_S = 300.0
PROBE_S = 660.0  # after which a probe that nobody heard of again counts as lost


class Position(StrEnum):
    """Where a circuit stands at some time."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


@dataclass(frozen=True, kw_only=True)
class Circuit:
    """One provider's record. Times are seconds of a clock that only goes forward."""

    failures: int = 0  # in a row
    openings: int = 0  # since it was last closed
    opens_until: float | None = None  # None: closed
    probed_at: float | None = None  # when the one request was let through, while it is under way

    def position(self, now: float) -> Position:
        """Return where it stands."""
        if self.opens_until is None:
            return Position.CLOSED
        return Position.OPEN if now < self.opens_until else Position.HALF_OPEN

    def admits(self, now: float) -> bool:
        """Whether a request may be sent now."""
        position = self.position(now)
        if position != Position.HALF_OPEN:
            return position == Position.CLOSED
        return self.probed_at is None or now - self.probed_at > PROBE_S

    def wait_s(self, now: float) -> float:
        """Return the seconds until a request may be sent; 0 where one may be now."""
        return max(0.0, (self.opens_until or now) - now)

    def probing(self, now: float) -> "Circuit":
        """Return it with a request under way that was admitted."""
        if self.position(now) == Position.CLOSED:
            return self
        return replace(self, probed_at=now)

    def failed(self, now: float, *, is_grave: bool, at_least_s: float = 0.0) -> "Circuit":
        """Return it after a failure; open for `at_least_s` where the provider said how long."""
        failures = self.failures + 1
        if self.position(now) == Position.OPEN:  # of a request that began before it opened
            until = max(self.opens_until or now, now + min(LONGEST_S, at_least_s))
            return replace(self, failures=failures, opens_until=until)
        if not is_grave and self.opens_until is None and failures < IN_A_ROW:
            return replace(self, failures=failures, probed_at=None)
        wait_s = min(LONGEST_S, max(at_least_s, FIRST_S * FACTOR**self.openings))
        return Circuit(failures=failures, openings=self.openings + 1, opens_until=now + wait_s)

    def answering(self, now: float) -> "Circuit":
        """Return it after a look that found the provider well: one request is let through now.

        Only once: where requests failed again since, they say more than looks do.
        """
        if self.position(now) != Position.OPEN or self.openings > 1:
            return self
        return replace(self, opens_until=now)

    def away(self, now: float, *, least_s: float) -> "Circuit":
        """Return it after a look that found nobody: open for another `least_s` at least."""
        if self.opens_until is None or self.probed_at is not None:
            return self
        return replace(self, opens_until=max(self.opens_until, now + least_s))

    def let_go(self) -> "Circuit":
        """Return it after a request that says nothing of the provider: it was given up."""
        return replace(self, probed_at=None)


__all__ = ["FACTOR", "FIRST_S", "IN_A_ROW", "LONGEST_S", "PROBE_S", "Circuit", "Position"]
