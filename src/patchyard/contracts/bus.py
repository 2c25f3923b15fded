"""The seam to words between the processes of one installation: heard now or never.

What must not be lost belongs into the journal. A message is delivered at most once to each who
subscribed before it was published; there is no history, no answer, no order between topics of
different senders. Whoever shares the home can publish: what a message says is a claim.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

MESSAGE_BYTES = 7_500  # of a body as JSON: what PostgreSQL's NOTIFY carries is below 8,000
QUEUED = 1_000  # messages that wait for one subscriber; the oldest go first


@dataclass(frozen=True, kw_only=True)
class Message:
    """One word to all who listen to its topic."""

    topic: str
    body: Mapping[str, Any]  # JSON
    sender: str = ""  # who it says it is from
    at: float = 0.0  # seconds since the epoch, by the sender's clock
    missed: int = 0  # that went by before it, because this subscriber was slow: at most so many


class Subscription(Protocol):
    """One who listens. Nothing is kept for it once its block is left."""

    async def next(self) -> Message:
        """Return the next message, waited for as long as it takes; cancelled, none is lost.

        Raises nothing for a bus in trouble: it is silent meanwhile.
        """
        ...


class Bus(Protocol):
    """Publish and subscribe, by topic."""

    async def publish(self, topic: str, body: Mapping[str, Any], *, sender: str = "") -> None:
        """Tell all who listen now; nobody is waited for.

        Raises UsageError for a body that is too large, Conflict or Unavailable where the bus
        cannot be used: nobody was told then.
        """
        ...

    def subscribe(self, *topics: str) -> AbstractAsyncContextManager[Subscription]:
        """Listen to topics (all, where none is named) from the block's beginning to its end.

        Raises Unavailable on entering where the bus cannot be used.
        """
        ...


__all__ = ["MESSAGE_BYTES", "QUEUED", "Bus", "Message", "Subscription"]
