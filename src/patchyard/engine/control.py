"""Words from other processes to the owner of a plan: `cancel`, for now."""

import asyncio
from collections.abc import Callable

from patchyard.contracts.clock import Clock
from patchyard.contracts.journal import Journal, NewEvent
from patchyard.domain.errors import Conflict

POLL_S = 0.2


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
    """Call `heard` with each word after the first `after`. Runs until cancelled."""
    while True:
        await asyncio.sleep(POLL_S)
        for event in await journal.read(_stream(plan_id), after=after):
            after = event.version
            heard(str(event.body.get("word", "")))


def _stream(plan_id: str) -> str:
    return f"control:{plan_id}"


__all__ = ["POLL_S", "listen", "say", "words"]
