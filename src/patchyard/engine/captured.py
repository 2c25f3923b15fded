"""The change set that a plan's journal names, read back."""

from patchyard.domain.changeset import ChangeSet
from patchyard.domain.errors import JournalBroken
from patchyard.engine.ledger import Ledger


async def changeset_of(ledger: Ledger) -> ChangeSet | None:
    """Return the newest change set of a plan; None where nothing was captured."""
    captured = ledger.state.changeset
    if captured is None:
        return None
    return await ledger.loaded(captured.body, ChangeSet)


async def known_changeset(ledger: Ledger) -> ChangeSet:
    """Return the newest change set. Raises JournalBroken where there must be one and is none."""
    found = await changeset_of(ledger)
    if found is None:
        raise JournalBroken(f"plan {ledger.plan_id} has no change set although it was captured")
    return found


__all__ = ["changeset_of", "known_changeset"]
