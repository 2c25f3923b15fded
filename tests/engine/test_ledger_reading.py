"""How often a ledger reads a plan's past: once, until the actor thinks anew."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from patchyard.clients.clock import SystemClock
from patchyard.contracts.journal import StoredEvent
from patchyard.domain.chain import Entry
from patchyard.domain.errors import JournalBroken
from patchyard.domain.events import Noted, PlanCreated, TurnRequested
from patchyard.domain.plan import PlanSpec
from patchyard.domain.state import PlanState
from patchyard.engine.ledger import Ledger, Store
from patchyard.stores.purse import SQLitePurse
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio

CLOCK = SystemClock()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty journal."""
    journal = SQLiteJournal.open(tmp_path / "patchyard.db")
    yield Store(journal=journal, summaries=journal, purse=SQLitePurse(journal))
    await journal.close()


async def test_the_past_is_read_once_and_what_is_newer_added(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Ledger(store, CLOCK, PlanState(plan_id=CLOCK.new_id()))
    created = PlanCreated(spec=PlanSpec(task="t", repository="/r"))
    await made.record(created, Noted(text="a"))
    ledger = await Ledger.open(store, CLOCK, made.plan_id)
    asked: list[int] = []
    read = SQLiteJournal.read

    async def counted(journal: SQLiteJournal, stream: str, *, after: int = 0) -> object:
        asked.append(after)
        return await read(journal, stream, after=after)

    monkeypatch.setattr(SQLiteJournal, "read", counted)

    await ledger.events()
    await ledger.record(Noted(text="b"))
    ledger.note(Noted(text="c"))
    whole = await ledger.events()
    tail = await ledger.events(after=2)

    assert asked == [2, 2, 4]
    assert [version for version, _, _ in whole] == [1, 2, 3, 4]
    assert [event for _, _, event in tail] == [Noted(text="b"), Noted(text="c")]
    await ledger.record(TurnRequested(turn=1))
    assert len(await ledger.events()) == 5
    assert asked[-1] == 0


async def test_listeners_hear_of_what_is_on_disk_and_of_nothing_else(store: Store) -> None:
    ledger = Ledger(store, CLOCK, PlanState(plan_id=CLOCK.new_id()))
    heard: list[object] = []
    ledger.listeners.append(heard.append)
    created = PlanCreated(spec=PlanSpec(task="t", repository="/r"))
    await ledger.record(created)
    ledger.note(Noted(text="a"))
    assert heard == [created]
    await ledger.record(Noted(text="b"))
    assert heard == [created, Noted(text="a"), Noted(text="b")]
    ledger.note(Noted(text="c"))
    await ledger.events()
    assert heard[-1] == Noted(text="c")


@pytest.mark.parametrize("damaged", ['{"text": "a"', "[]", '{},{"text": "a"}', ""])
def test_many_events_are_read_as_one_by_one_are(damaged: str) -> None:
    texts = ['{"text": "a"}', '{"n": {"k": [1, null]}}', "{}"]
    entries = [Entry("P", n, "Noted", 1, 0.5, text) for n, text in enumerate(texts, start=1)]
    assert StoredEvent.of_all(entries) == [StoredEvent.of(entry) for entry in entries]
    assert StoredEvent.of_all([]) == []

    entries[1] = entries[1]._replace(text=damaged)
    with pytest.raises(JournalBroken, match="event 2 of P"):
        StoredEvent.of_all(entries)
