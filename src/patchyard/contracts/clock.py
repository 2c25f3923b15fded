"""The seam to time and chance, so that decisions can be repeated."""

from typing import Protocol


class Clock(Protocol):
    """Where time and new names come from."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump back."""
        ...

    def new_id(self) -> str:
        """Return a new ULID, increasing within one process."""
        ...


__all__ = ["Clock"]
