"""The seam to what a base holds, read for the task at hand: facts, guidance, and a map."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from patchyard.domain.analysis import Context, Guide, Ownership, Symbol
from patchyard.domain.changeset import Base


@dataclass(frozen=True, kw_only=True)
class Study:
    """What was read of one base for one task."""

    context: Context
    named: tuple[str, ...] = ()  # files that the task names
    owners: tuple[Ownership, ...] = ()  # of these
    guides: tuple[Guide, ...] = ()
    symbols: Sequence[Symbol] = ()  # the most worth knowing first, as many as fit the budget
    left_out: int = 0  # files with rules for their language that could not be read
    is_cached: bool = False  # this very tree was known


class Analyst(Protocol):
    """Reads bases; trusted git, nothing that an agent could have written, and runs none of it."""

    async def study(self, base: Base, task: str, *, tokens: int) -> Study:
        """Return what the base is, and a map of at most `tokens` for the task; 0: no map.

        The answer depends on nothing but the base's tree, the task and `tokens`. What was read is
        kept for the next time. Cancelling it ends what it had begun.

        Raises WorkFailed, Unavailable where the base cannot be read.
        """
        ...


__all__ = ["Analyst", "Study"]
