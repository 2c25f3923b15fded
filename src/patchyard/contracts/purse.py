"""The seam to the purse that all plans of an installation share, and to what may be in it.

Plans book in it with `Journal.append`, in the same step as the events that say so.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from patchyard.domain.booking import Account, Booking, Bound
from patchyard.domain.budget import Amount, Tally


class Budgets(Protocol):
    """The limits in force."""

    async def bounds(self, project: str, day: str) -> Sequence[Bound]:
        """Return those of every account that something of `project` on `day` counts in.

        What was set anew is seen within a second. Raises UsageError for settings that are wrong.
        """
        ...


class Purse(Protocol):
    """What was used and what is set aside, by account."""

    async def tallies(self, accounts: Sequence[Account]) -> Mapping[Account, Tally]:
        """Return what stands in these accounts; one that was never booked in is empty."""
        ...

    async def book(self, stream: str, booking: Booking) -> None:
        """Book what belongs to no event. Raises LimitReached; nothing is booked then."""
        ...

    async def holders(self) -> Mapping[str, Amount]:
        """Return what each stream has set aside, where it has."""
        ...

    async def lose(self, stream: str) -> None:
        """Settle all that a stream has set aside at its most. Idempotent."""
        ...


__all__ = ["Budgets", "Purse"]
