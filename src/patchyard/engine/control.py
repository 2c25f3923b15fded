"""Words from other processes to the owner of a plan: `cancel`, for now."""

import asyncio
from collections.abc import Callable

from patchyard.contracts.clock import Clock
from patchyard.contracts.journal import Journal, NewEvent
from patchyard.domain.errors import Conflict, PatchyardError

POLL_S = 0.2
TROUBLED_POLL_S = 1.0


async def say(journal: Journal, clock: Clock, plan_id: str, word: str) -> None:
    """Leave `word` for whoever works on `plan_id`."""
    stream = _stream(plan_id)
    while True:
        version = len(await journal.read(stream))
        event = NewEvent(type="Word", schema=1, at=clock.now(), body={"word": word})
        try:
            await journal.append(stream, version, [event])
        except Conflict as error:
            if "found" not in error.details:  # not another's word: the database is locked
                raise
            continue
        return


async def words(journal: Journal, plan_id: str) -> int:
    """Return how many words were said so far."""
    return len(await journal.read(_stream(plan_id)))


async def listen(
    journal: Journal, plan_id: str, heard: Callable[[str], None], *, after: int
) -> None:
    """Call `heard` with each word after the first `after`. Runs until cancelled.

    A journal that cannot be read is asked again: the plan's own next entry tells of a lasting
    trouble, and who stopped listening would never hear a cancel.
    """
    pause_s = POLL_S
    while True:
        await asyncio.sleep(pause_s)
        try:
            events = await journal.read(_stream(plan_id), after=after)
        except PatchyardError:
            pause_s = TROUBLED_POLL_S
            continue
        pause_s = POLL_S
        for event in events:
            after = event.version
            heard(str(event.body.get("word", "")))


def _stream(plan_id: str) -> str:
    return f"control:{plan_id}"


__all__ = ["POLL_S", "TROUBLED_POLL_S", "listen", "say", "words"]
