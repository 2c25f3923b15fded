"""Tasks of one engine that write to a plan's journal at once: nothing is lost, or counted twice."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.test_ledger import made
from patchyard.clients.clock import SystemClock
from patchyard.domain.booking import Account, Bound
from patchyard.domain.budget import Ceiling
from patchyard.domain.errors import LimitReached
from patchyard.domain.events import Body, Event, Noted, ToolCallRequested, TurnTaken
from patchyard.domain.fold import fold
from patchyard.domain.spending import Reserved
from patchyard.domain.state import PlanState
from patchyard.engine.ledger import Ledger, Store
from patchyard.stores.purse import SQLitePurse
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio


class Slow:
    """Budgets that answer only after other tasks had their turn."""

    def __init__(self, *bounds: Bound) -> None:
        self.known = bounds
        self.asked = 0

    async def bounds(self, _project: str, _day: str) -> Sequence[Bound]:
        self.asked += 1
        for _ in range(3):
            await asyncio.sleep(0)
        return self.known


class SlowJournal(SQLiteJournal):
    """A journal that is held up by others before it appends."""

    async def _tried(self, work: Any) -> Any:
        for _ in range(3):
            await asyncio.sleep(0)
        return await super()._tried(work)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    journal = SlowJournal.open(tmp_path / "patchyard.db")
    yield Store(journal=journal, summaries=journal, purse=SQLitePurse(journal), budgets=Slow())
    await journal.close()


def asked(number: int) -> ToolCallRequested:
    return ToolCallRequested(
        call_id=f"c{number}", turn=1, ref="r", name="n", arguments=Body(), environment_id="e"
    )


async def refolded(ledger: Ledger) -> PlanState:
    events = await ledger.events()
    return fold(PlanState(plan_id=ledger.plan_id), events)


async def test_two_tasks_that_record_at_once_lose_nothing_of_each_other(store: Store) -> None:
    ledger = await made(store)
    await asyncio.gather(*(ledger.record(asked(n), Noted(text=str(n))) for n in range(8)))
    assert ledger.state == await refolded(ledger)
    assert ledger.state.tool_calls == 8
    tallies = [tally.spent.calls for _, _, tally in await ledger.accounts()]
    assert set(tallies) == {8}
    await ledger.record(Noted(text="on"))  # its version is the journal's


async def test_what_was_set_aside_is_settled_once(store: Store) -> None:
    ledger = await made(store)
    await ledger.record(Reserved(usd=1.0, input_tokens=10, output_tokens=10))
    taken = TurnTaken(turn=1, note="", body=Body(), asked_model=True, usd=0.5, input_tokens=7)
    again = replace(taken, turn=2, usd=0.25, input_tokens=5)
    await asyncio.gather(ledger.record(taken), ledger.record(again))
    assert ledger.state == await refolded(ledger)
    assert ledger.state.spent.usd == 0.75
    for _, _, tally in await ledger.accounts():
        assert (tally.spent.tokens, tally.taken.tokens) == (12, 12)


async def test_what_is_noted_while_another_task_records_comes_after_it(store: Store) -> None:
    ledger = await made(store)
    ledger.note(Noted(text="before"))
    heard: list[Event] = []
    ledger.listeners.append(heard.append)
    recording = asyncio.create_task(ledger.record(asked(1), Noted(text="recorded")))
    await asyncio.sleep(0)
    ledger.note(asked(2), Noted(text="meanwhile"))
    assert ledger.state.tool_calls == 1  # what was noted counts at once
    await recording
    assert ledger.state.tool_calls == 2
    events = [event for _, _, event in await ledger.events()]
    assert [e.text for e in events if isinstance(e, Noted)] == ["before", "recorded", "meanwhile"]
    assert [e.text for e in heard if isinstance(e, Noted)] == ["before", "recorded", "meanwhile"]
    assert ledger.state == await refolded(ledger)
    assert {tally.spent.calls for _, _, tally in await ledger.accounts()} == {2}


async def test_what_is_noted_while_a_record_is_refused_stays(store: Store) -> None:
    ledger = await made(store)
    full = replace(store, budgets=Slow(Bound(account=Account(), ceiling=Ceiling(calls=0))))
    ledger = await Ledger.open(full, SystemClock(), ledger.plan_id)
    recording = asyncio.create_task(ledger.record(asked(1)))
    await asyncio.sleep(0)
    ledger.note(Noted(text="meanwhile"))
    with pytest.raises(LimitReached):
        await recording
    await ledger.flush()
    events = [event for _, _, event in await ledger.events()]
    assert [event.text for event in events if isinstance(event, Noted)] == ["meanwhile"]
    assert ledger.state == await refolded(ledger)
    assert ledger.state.tool_calls == 0


async def test_a_flush_writes_what_is_noted_meanwhile_too(store: Store) -> None:
    ledger = await made(store)
    ledger.note(Noted(text="one"))
    heading = asyncio.create_task(ledger.head())
    await asyncio.sleep(0)
    ledger.note(Noted(text="two"))
    relisting = asyncio.create_task(ledger.relist())
    head = await heading
    await relisting
    entries = await store.journal.entries(ledger.plan_id)
    assert entries[-1].hash == head
    assert len(entries) == ledger.state.version
