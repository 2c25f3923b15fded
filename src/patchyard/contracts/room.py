"""The seam to room on the disk: whether there is enough to begin something."""

from typing import Protocol

from patchyard.domain.errors import PatchyardError


class Room(Protocol):
    """The disks that a plan writes to."""

    def require(self) -> None:
        """Raise NoRoom when so little is free that no plan may begin. What runs goes on.

        Raises Unavailable where the home cannot be written to.
        """
        ...

    def explained(self, error: PatchyardError) -> PatchyardError:
        """Return `error`; of one that speaks of no room it says whether files are meant."""
        ...


__all__ = ["Room"]
