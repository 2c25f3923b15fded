"""The seam to ownership: one process at a time carries a plan on."""

from contextlib import AbstractContextManager
from typing import Protocol


class Claims(Protocol):
    """Who owns which plan. A claim ends with its process, however that ends."""

    def claim(self, plan_id: str) -> AbstractContextManager[None]:
        """Own `plan_id` within the context. Raises Conflict when another process owns it."""
        ...

    def is_claimed(self, plan_id: str) -> bool:
        """Whether some process owns it now."""
        ...


__all__ = ["Claims"]
