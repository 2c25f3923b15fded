"""The seam to a look at the store itself: its structure, and what it has noted of its streams."""

from collections.abc import Sequence
from typing import Protocol


class Inspection(Protocol):
    """Extension of a journal: says what is wrong with all of it. Changes nothing."""

    async def structure(self) -> Sequence[str]:
        """Return what is wrong with how rows and indexes lie in the store, a sentence each."""
        ...

    async def streams(self) -> Sequence[str]:
        """Return a sentence for each stream that does not reach its last noted event."""
        ...


__all__ = ["Inspection"]
