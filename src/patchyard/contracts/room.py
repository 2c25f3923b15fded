"""The seam to room on the disk: whether there is enough to begin something."""

from typing import Protocol


class Room(Protocol):
    """The disks that a plan writes to."""

    def require(self) -> None:
        """Raise NoRoom when so little is free that no plan may begin. What runs goes on."""
        ...


__all__ = ["Room"]
