"""Words to the owner of a plan, heard whatever the journal does meanwhile."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from patchyard.contracts.journal import Journal, StoredEvent
from patchyard.domain.errors import Conflict
from patchyard.engine import control

pytestmark = pytest.mark.anyio


class Troubled:
    """A journal that is locked for the first reads."""

    def __init__(self, troubles: int) -> None:
        self.troubles = troubles

    async def read(self, stream: str, *, after: int = 0) -> Sequence[StoredEvent]:
        if self.troubles:
            self.troubles -= 1
            raise Conflict("the database is locked by another process")
        word = {"word": "cancel"}
        said = StoredEvent(stream=stream, version=1, type="Word", schema=1, at=0.0, body=word)
        return [said] if after < 1 else []


async def test_a_cancel_is_heard_after_reads_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "POLL_S", 0.001)
    monkeypatch.setattr(control, "TROUBLED_POLL_S", 0.001)
    heard: asyncio.Queue[control.Word] = asyncio.Queue()
    journal = cast("Journal", Troubled(2))

    ear = asyncio.ensure_future(control.listen(journal, "P", heard.put_nowait, after=0))
    first, _ = await asyncio.wait(
        [ear, asyncio.ensure_future(heard.get())], return_when=asyncio.FIRST_COMPLETED
    )

    assert [each.result() for each in first] == [control.Word(number=1, word="cancel")]
    ear.cancel()
    await asyncio.wait([ear])
