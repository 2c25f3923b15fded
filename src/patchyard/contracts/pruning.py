"""The seam to taking old plans out of the journal."""

from collections.abc import Sequence
from typing import Protocol

from patchyard.domain.retention import Removed


class Pruning(Protocol):
    """Extension of a journal: whole streams go, all others stay as they were."""

    async def forget(self, removed: Removed) -> None:
        """Delete a plan's stream with all that is kept beside it, and note that it was there.

        Both in one step. The caller owns the plan.
        """
        ...

    async def removed(self) -> Sequence[Removed]:
        """Return the plans that were forgotten, oldest first."""
        ...

    async def sweep_bodies(self) -> int:
        """Delete the bodies that no event names any more; return their bytes.

        Beside running plans: what they name meanwhile stays. Looks only when a plan was forgotten
        since the last time.
        """
        ...


__all__ = ["Pruning"]
