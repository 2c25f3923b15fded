"""The seam to the journal: events appended under an expected version."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from patchyard.domain.booking import Booking
from patchyard.domain.chain import Entry, Head
from patchyard.domain.codec import from_text
from patchyard.domain.queue import Lease


class StoredEvent(NamedTuple):
    """One event as it lies in the journal."""

    stream: str  # plan id, or "home" for what belongs to no plan
    version: int  # 1, 2, 3 ... within the stream
    type: str  # name of the record in domain/events.py
    schema: int  # version of that record's shape; old ones are upcast on read
    at: float  # seconds since the epoch, the engine's clock
    body: Mapping[str, Any]  # JSON, at most 16 KB encoded

    @classmethod
    def of(cls, entry: Entry) -> "StoredEvent":
        """Read what `entry` has to the letter. Raises JournalBroken when it is no object."""
        body = from_text(entry.text, "event {} of {}", entry.version, entry.stream)
        return cls(*entry[:5], body)

    @classmethod
    def of_all(cls, entries: Sequence[Entry]) -> "Sequence[StoredEvent]":
        """Read many, as `of` does, in two thirds of the time."""
        try:
            bodies = json.loads(f"[{','.join([entry.text for entry in entries])}]")
        except (ValueError, RecursionError):
            bodies = []
        if len(bodies) != len(entries) or any(type(body) is not dict for body in bodies):
            return [cls.of(entry) for entry in entries]  # one is damaged: it says which
        return [cls(*entry[:5], body) for entry, body in zip(entries, bodies, strict=True)]


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    """One event that is to be appended."""

    type: str
    schema: int
    at: float
    body: Mapping[str, Any]


class Journal(Protocol):
    """Streams of events. What `append` returned is on disk."""

    async def append(
        self,
        stream: str,
        expected: int,
        events: Sequence[NewEvent],
        *,
        bodies: Mapping[str, bytes] | None = None,
        summary: Mapping[str, Any] | None = None,
        booking: Booking | None = None,
    ) -> int:
        """Append after version `expected` and return the new version.

        `bodies` are blobs by digest that the events name, `summary` is what lists show of the
        stream from now on, `booking` is what they move in the shared purse; they are stored in the
        same step.
        Each event is hashed together with the hash of the one before it (domain/chain.py).
        Raises Conflict when the stream has another version (somebody else writes it), or when
        another process holds the store for too long; while it does, the event loop goes on.
        Raises LimitReached when a limit of `booking` has no room.
        """
        ...

    async def read(self, stream: str, *, after: int = 0) -> Sequence[StoredEvent]:
        """Return the events after version `after`, in order. An unknown stream is empty."""
        ...

    async def entries(self, stream: str, *, after: int = 0) -> Sequence[Entry]:
        """Return the events after version `after` to the letter, each with its hash."""
        ...

    async def noted(self, stream: str) -> Sequence[Head]:
        """Return the ends of a stream that were noted apart from its events; none: not known.

        Asked before the events: what is read afterwards reaches each of them, or was lost.
        """
        ...

    async def body(self, digest: str) -> bytes:
        """Return a blob. Raises JournalBroken when it is missing or does not match its digest."""
        ...

    async def close(self) -> None:
        """Close the store. Called once by whoever opened it."""
        ...


class Fencing(Journal, Protocol):
    """Extension: a journal in which the lease of a plan counts."""

    def fenced(self, lease: Lease) -> Journal:
        """Return the same journal for the owner that holds `lease`.

        Its `append` raises FencedOff once another owner has a higher generation: checked in the
        same step that writes.
        """
        ...


class Summaries(Protocol):
    """Read model: one small JSON object a stream, for lists; written by `Journal.append`."""

    async def summaries(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return (stream, summary) of every plan, that begun last first; {} where it is damaged."""
        ...


__all__ = ["Fencing", "Journal", "NewEvent", "StoredEvent", "Summaries"]
