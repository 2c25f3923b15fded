"""The ledger: one writer, everything on disk, large bodies beside the events."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from patchyard.clients.clock import SystemClock
from patchyard.contracts.journal import Fencing, NewEvent
from patchyard.domain.changeset import Base, FilteredPair
from patchyard.domain.errors import Conflict, GuardRefused, JournalBroken, UsageError
from patchyard.domain.events import (
    BaseRecorded,
    Event,
    Moved,
    Noted,
    PlanCreated,
    ToolCallSettled,
    TurnTaken,
)
from patchyard.domain.ids import ulid
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.state import PlanState
from patchyard.engine import control
from patchyard.engine.finding import find_plan, list_plans
from patchyard.engine.ledger import Ledger, Store
from patchyard.engine.rows import WHOLE, body_of
from patchyard.stores.purse import SQLitePurse
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio

CLOCK = SystemClock()
QUEUED = Moved(phase=Phase.STRATEGIZE, state=State.QUEUED)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    journal = SQLiteJournal.open(tmp_path / "patchyard.db")
    yield Store(journal=journal, summaries=journal, purse=SQLitePurse(journal))
    await journal.close()


async def made(
    store: Store,
    *,
    task: str = "mend",
    repository: str = "/srv/repo",
    clock: SystemClock = CLOCK,
) -> Ledger:
    ledger = Ledger(store, clock, PlanState(plan_id=clock.new_id()))
    await ledger.record(PlanCreated(spec=PlanSpec(task=task, repository=repository)), QUEUED)
    return ledger


async def test_what_was_recorded_is_folded_the_same_when_read_back(store: Store) -> None:
    ledger = await made(store)
    await ledger.record(Noted(text="a"), Noted(text="b"))
    again = await Ledger.open(store, SystemClock(), ledger.plan_id)
    assert again.state == ledger.state


async def test_two_owners_can_never_both_write(store: Store) -> None:
    first = await made(store)
    second = await Ledger.open(store, SystemClock(), first.plan_id)
    await first.record(Noted(text="mine"))
    with pytest.raises(Conflict):
        await second.record(Noted(text="not mine"))
    texts = [event.text for _, _, event in await first.events() if isinstance(event, Noted)]
    assert texts == ["mine"]


async def test_a_forbidden_move_writes_nothing(store: Store) -> None:
    ledger = await made(store)
    before = ledger.state
    with pytest.raises(GuardRefused):
        await ledger.record(Noted(text="x"), Moved(phase=Phase.APPLY, state=State.APPLIED))
    assert ledger.state == before
    assert len(await ledger.events()) == 2


async def test_a_large_body_lies_beside_its_event(store: Store) -> None:
    ledger = await made(store)
    large = {"text": "x" * 50_000}
    await ledger.record(TurnTaken(turn=1, note="", body=body_of(large)))
    stored = (await store.journal.read(ledger.plan_id))[-1]
    assert len(str(stored.body)) < 500
    _, _, event = (await ledger.events())[-1]
    assert isinstance(event, TurnTaken)
    assert await ledger.value(event.body) == large


async def test_a_small_body_stays_in_its_event(store: Store) -> None:
    ledger = await made(store)
    await ledger.record(TurnTaken(turn=1, note="", body=body_of({"a": 1})))
    stored = (await store.journal.read(ledger.plan_id))[-1]
    assert stored.body["body"]["value"] == {"a": 1}


async def test_an_event_over_the_limit_moves_as_a_whole(store: Store) -> None:
    ledger = await made(store)
    pair = FilteredPair(raw="a" * 40, normalised="b" * 40)
    base = Base(
        repository="/r",
        store="/s",
        commit=None,
        branch=None,
        tree="t",
        filtered={f"path/{number}": pair for number in range(500)},
    )
    await ledger.record(BaseRecorded(base=base))
    stored = (await store.journal.read(ledger.plan_id))[-1]
    assert set(stored.body) == {WHOLE}
    again = await Ledger.open(store, SystemClock(), ledger.plan_id)
    assert again.state.base == base


async def test_a_task_of_a_megabyte_makes_a_plan(store: Store) -> None:
    ledger = await made(store, task="t" * 1_000_000)
    again = await Ledger.open(store, SystemClock(), ledger.plan_id)
    assert len(again.state.known.task) == 1_000_000


async def test_a_plan_is_listed_as_soon_as_it_is_on_disk(store: Store) -> None:
    killed = RuntimeError("the engine ends right after the append")

    async def append(*args: Any, **options: Any) -> int:
        await store.journal.append(*args, **options)
        raise killed

    dying = SimpleNamespace(append=append)
    with pytest.raises(RuntimeError, match="right after"):
        await made(
            Store(journal=cast("Fencing", dying), summaries=store.summaries, purse=store.purse)
        )
    (listed,) = await list_plans(store.summaries, repository=None)
    assert (listed["phase"], listed["state"]) == ("strategize", "queued")


class Sleeping(SystemClock):
    """A clock of a machine that slept."""

    slept = 0.0

    def now(self) -> float:
        return super().now() + self.slept


async def test_the_sleep_of_the_machine_is_no_time_of_the_plan(store: Store) -> None:
    clock = Sleeping()
    ledger = Ledger(store, clock, PlanState(plan_id=CLOCK.new_id()))
    await ledger.record(PlanCreated(spec=PlanSpec(task="mend", repository="/srv/repo")), QUEUED)
    await ledger.record(Moved(phase=Phase.STRATEGIZE, state=State.PROCESSING))
    clock.slept = 8 * 3600.0
    await ledger.record(Noted(text="good morning"))
    clock.slept = 0.0
    ledger.note(Noted(text="and the clock set back"))
    assert ledger.state.spent.seconds < 60
    again = await Ledger.open(store, clock, ledger.plan_id)
    assert again.state.spent.seconds < 60


async def test_listeners_hear_what_is_on_disk(store: Store) -> None:
    ledger = await made(store)
    heard: list[Event] = []
    ledger.listeners.append(heard.append)
    await ledger.record(Noted(text="x"))
    assert heard == [Noted(text="x")]


async def test_an_event_of_a_newer_version_is_reported(store: Store) -> None:
    ledger = await made(store)
    newer = NewEvent(type="Teleported", schema=1, at=0.0, body={})
    await store.journal.append(ledger.plan_id, 2, [newer])
    with pytest.raises(JournalBroken, match="Teleported"):
        await Ledger.open(store, SystemClock(), ledger.plan_id)


async def test_an_unknown_plan_says_where_to_look(store: Store) -> None:
    with pytest.raises(UsageError, match="no plan") as caught:
        await Ledger.open(store, SystemClock(), "01J")
    assert "plan list" in caught.value.hint


async def test_a_plan_is_found_by_prefix_and_by_last(store: Store) -> None:
    first = await made(store)
    second = await made(store)
    other = await made(store, repository="/srv/other")
    here = "/srv/repo/deep/inside"
    assert await find_plan(store.summaries, "@last", repository=here) == second.plan_id
    found = await find_plan(store.summaries, first.plan_id.lower(), repository=here)
    assert found == first.plan_id
    assert await find_plan(store.summaries, "@last", repository="/srv/other") == other.plan_id
    rows = await list_plans(store.summaries, repository="/srv/repo")
    assert [row["plan_id"] for row in rows] == [second.plan_id, first.plan_id]
    assert len(await list_plans(store.summaries, repository=None)) == 3


class Ahead(SystemClock):
    """A clock that is a year ahead."""

    def new_id(self) -> str:
        return ulid(int((time.time() + 365 * 86_400) * 1000), 0)


async def test_the_last_plan_is_the_one_begun_last_whatever_the_clock_said(store: Store) -> None:
    early = await made(store)
    ahead = await made(store, clock=Ahead())
    last = await made(store)
    await ahead.record(Noted(text="goes on"))
    assert await find_plan(store.summaries, "@last", repository="/srv/repo") == last.plan_id
    rows = await list_plans(store.summaries, repository="/srv/repo")
    assert [row["plan_id"] for row in rows] == [last.plan_id, ahead.plan_id, early.plan_id]


@pytest.mark.parametrize(
    ("text", "said"),
    [("@last", "no plan of"), ("u!", "no plan id"), ("7ZZ", "no plan 7ZZ"), ("0", "fits 2 plans")],
)
async def test_what_names_no_plan_is_said(store: Store, text: str, said: str) -> None:
    await made(store)
    await made(store)
    with pytest.raises(UsageError, match=said):
        await find_plan(store.summaries, text, repository="/nowhere")


async def test_a_word_reaches_the_owner_and_only_new_ones_do(store: Store) -> None:
    clock = SystemClock()
    await control.say(store.journal, clock, "P", "old")
    said = await control.words(store.journal, "P")
    heard: asyncio.Queue[control.Word] = asyncio.Queue()
    ear = asyncio.create_task(control.listen(store.journal, "P", heard.put_nowait, after=said))
    await asyncio.sleep(0)
    await control.say(store.journal, clock, "P", "cancel")
    async with asyncio.timeout(120):
        assert (await heard.get()).word == "cancel"
    ear.cancel()
    await asyncio.wait([ear])
    assert heard.empty()


async def test_what_was_noted_keeps_its_body_when_the_first_writing_of_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchyard.stores.sqlite.BUSY_S", 0.01)
    journal = SQLiteJournal.open(tmp_path / "patchyard.db")
    ledger = await made(Store(journal=journal, summaries=journal, purse=SQLitePurse(journal)))
    large = "y" * 9000
    ledger.note(ToolCallSettled(call_id="c", success=True, message="", data=body_of(large)))
    other = sqlite3.connect(tmp_path / "patchyard.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Conflict, match="locked"):
        await ledger.record(Noted(text="a"))
    other.close()
    await ledger.record(Noted(text="b"))
    (call,) = [e for _, _, e in await ledger.events() if isinstance(e, ToolCallSettled)]
    assert await ledger.value(call.data) == large
    await journal.close()


async def test_a_word_is_not_tried_for_ever_on_a_locked_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchyard.stores.sqlite.BUSY_S", 0.01)
    journal = SQLiteJournal.open(tmp_path / "patchyard.db")
    other = sqlite3.connect(tmp_path / "patchyard.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Conflict, match="locked"):
        await control.say(journal, CLOCK, "P", "cancel")
    other.close()
    await journal.close()
