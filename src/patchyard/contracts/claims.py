"""The seam to ownership: one process at a time carries a plan on."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from patchyard.domain.queue import Errand, Lease, Member


class Hold(Protocol):
    """A plan that this process owns, for as long as it gives signs of life."""

    @property
    def lease(self) -> Lease:
        """What the journal checks in each append."""
        ...

    async def confirm(self) -> None:
        """Raise FencedOff unless the plan is still owned.

        To be asked before anything that another owner would suffer from; costs nothing while the
        last sign of life is fresh.
        """
        ...

    def sole(self) -> AbstractAsyncContextManager[None]:
        """Let no other owner, one of before or one to come, alter what the plan has outside.

        For what the journal cannot refuse: its trees, its environments, the user's checkout. Within
        the block the plan is owned, however long this process is stopped there. Blocks may lie
        within each other. Raises FencedOff when it is owned by another, Conflict when one of before
        does not let go; one that is stopped is killed.
        """
        ...

    def on_loss(self, told: Callable[[], object]) -> None:
        """Have `told` called, in the event loop, once another process has taken the plan."""
        ...


class Claims(Protocol):
    """Who owns which plan. A claim ends with its process, however that ends."""

    def claim(
        self, plan_id: str, *, errand: Errand = Errand.NONE
    ) -> AbstractAsyncContextManager[Hold]:
        """Own `plan_id` within the context. Raises Conflict while a living process owns it.

        `errand` is what workers carry on should this process die.
        """
        ...

    async def holder(self, plan_id: str) -> Member | None:
        """Return the living process that owns it now, None when none does."""
        ...


__all__ = ["Claims", "Hold"]
