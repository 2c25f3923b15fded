"""Whether a stream of the journal is what was written, before something is made of its events."""

from collections.abc import Sequence

from patchyard.contracts.journal import Journal
from patchyard.domain.chain import Entry, faults
from patchyard.domain.errors import JournalBroken

SHOWN = 20  # faults that an error names


async def intact(journal: Journal, stream: str, *, said: str = "") -> Sequence[Entry]:
    """Return the events of a stream to the letter; `said` is what errors call it, else its plan.

    Raises JournalBroken when one is missing or is not as it was written.
    """
    noted = await journal.noted(stream)
    entries = await journal.entries(stream)
    if not entries:  # removed since
        noted = await journal.noted(stream)
    found = faults(entries, noted=noted)
    if found:
        shown = f"`agents plan verify {stream}` shows everything; "
        raise JournalBroken(
            f"{said or f'the journal of plan {stream}'} is not what was written: {found[0]}",
            hint=f"{'' if said else shown}restore the database from a backup: nothing was changed",
            details={"problems": list(found[:SHOWN])},
        )
    return entries


__all__ = ["SHOWN", "intact"]
