"""Words from other processes to the owner of a plan. They are on disk, numbered, and kept."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from patchyard.contracts.clock import Clock
from patchyard.contracts.journal import Journal, NewEvent, StoredEvent
from patchyard.domain.errors import Conflict
from patchyard.engine.enduring import Enduring
from patchyard.engine.integrity import intact

POLL_S = 0.2
TROUBLED_POLL_S = 1.0

CANCEL = "cancel"
LIMIT = "limit"
PAUSE = "pause"
PROMPT = "prompt"


@dataclass(frozen=True, kw_only=True)
class Word:
    """One word to the owner."""

    number: int  # 1, 2, 3 ... of this plan's words
    word: str  # CANCEL, LIMIT, PAUSE, PROMPT
    text: str = ""
    source: str = ""  # the command that said it
    word_id: str = ""


async def say(
    journal: Journal, clock: Clock, plan_id: str, word: str, *, text: str = "", source: str = ""
) -> int:
    """Leave `word` for whoever works on `plan_id`; return its number."""
    stream = _stream(plan_id)
    while True:
        version = len(await journal.read(stream))
        body = {"word": word}
        if text:
            body |= {"text": text, "source": source, "id": clock.new_id()}
        event = NewEvent(type="Word", schema=1, at=clock.now(), body=body)
        try:
            await journal.append(stream, version, [event])
        except Conflict as error:
            if "found" not in error.details:  # not another's word: the database is locked
                raise
            continue
        return version + 1


async def words(journal: Journal, plan_id: str, *, before: float | None = None) -> int:
    """Return how many words were said so far, or before a time.

    Raises JournalBroken where some of them are lost or altered: a cancel may be among them.
    """
    shown = f"the journal of words to plan {plan_id}"
    said = await intact(journal, _stream(plan_id), said=shown)
    return len(said) if before is None else sum(each.at < before for each in said)


async def read(journal: Journal, plan_id: str, *, after: int) -> Sequence[Word]:
    """Return the words after the first `after`."""
    return [_word(event) for event in await journal.read(_stream(plan_id), after=after)]


async def listen(
    journal: Journal, plan_id: str, heard: Callable[[Word], None], *, after: int
) -> None:
    """Call `heard` with each word after the first `after`. Runs until cancelled.

    A word that cannot be taken in is told and passed over. A journal that cannot be read is asked
    again: who stopped listening would never hear a cancel.
    """
    endures = Enduring()
    events: Sequence[StoredEvent] = ()
    pause_s = POLL_S
    while True:
        await asyncio.sleep(pause_s)
        with endures.passing(f"words to plan {plan_id}") as looking:
            events = await journal.read(_stream(plan_id), after=after)
        if looking.error is not None:
            pause_s = TROUBLED_POLL_S
            continue
        pause_s = POLL_S
        for event in events:
            after = event.version
            with endures.passing(f"word {event.version} to plan {plan_id}"):
                heard(_word(event))


def _word(event: StoredEvent) -> Word:
    body = event.body
    return Word(
        number=event.version,
        word=str(body.get("word", "")),
        text=str(body.get("text", "")),
        source=str(body.get("source", "")),
        word_id=str(body.get("id", "")),
    )


def _stream(plan_id: str) -> str:
    return f"control:{plan_id}"


__all__ = [
    "CANCEL",
    "LIMIT",
    "PAUSE",
    "POLL_S",
    "PROMPT",
    "TROUBLED_POLL_S",
    "Word",
    "listen",
    "read",
    "say",
    "words",
]
