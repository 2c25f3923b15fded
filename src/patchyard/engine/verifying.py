"""Checks a plan's journal against its own hashes: whole, unchanged, and readable to the last event.

Nothing is repaired or written: what is wrong is said.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from patchyard.contracts.journal import Journal, StoredEvent
from patchyard.domain.chain import SHORTEST_HEAD, faults, is_unhashed
from patchyard.domain.errors import PatchyardError, UsageError
from patchyard.domain.events import Body, Event
from patchyard.domain.fold import fold
from patchyard.domain.state import PlanState
from patchyard.engine.ledger import PLAN
from patchyard.engine.rows import from_row


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What became of a check."""

    plan_id: str
    events: int
    blobs: int  # distinct bodies beside the events, each read and hashed
    head: str  # hash of the last event; empty where no event has one
    is_hashed: bool  # False: of a version that wrote no hashes, which would show an edit
    problems: tuple[str, ...]  # a sentence each; empty: all is as it was written


async def verify(journal: Journal, plan_id: str, *, head: str | None = None) -> Verification:
    """Check every event and every body of a plan; with `head`, that this event is still there.

    Raises UsageError for an unknown plan or what is no hash.
    """
    if head is not None and (
        len(head) < SHORTEST_HEAD or set(head.lower()) - set("0123456789abcdef")
    ):
        raise UsageError(
            f"{head!r} is no hash of an event",
            hint=f"give the hash that was printed, or its first {SHORTEST_HEAD} digits at least",
        )
    noted = await journal.noted(plan_id)
    entries = await journal.entries(plan_id)
    if not entries and not noted:
        raise UsageError(f"there is no plan {plan_id} in this database")
    problems = list(faults(entries, head=head or "", noted=noted))
    events = []
    digests: set[str] = set()
    for each in entries:
        try:
            event = await from_row(StoredEvent.of(each), PLAN, journal)
            for digest in bodies_of(event) - digests:
                digests.add(digest)
                await journal.body(digest)
        except PatchyardError as error:
            problems.append(f"event {each.version} ({each.type}): {error.message}")
        else:
            events.append((each.version, each.at, event))
    return Verification(
        plan_id=plan_id,
        events=len(entries),
        blobs=len(digests),
        head=entries[-1].hash if entries else "",
        is_hashed=not is_unhashed(entries, noted),
        problems=tuple(problems or _impossible(plan_id, events)),
    )


def bodies_of(event: Event) -> set[str]:
    """Return the digests of the bodies that lie beside an event."""
    values = (getattr(event, each.name) for each in fields(event))
    return {value.digest for value in values if isinstance(value, Body) and value.digest}


def _impossible(plan_id: str, events: Sequence[tuple[int, float, Event]]) -> Sequence[str]:
    """Fold the events; return why they cannot have happened in this order."""
    try:
        fold(PlanState(plan_id=plan_id), events)
    except PatchyardError as error:
        return [error.message]
    return []


__all__ = ["Verification", "bodies_of", "verify"]
