"""`plan verify`: what somebody did to a plan's rows and bodies is found and named."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from patchyard.clients.clock import SystemClock
from patchyard.contracts.journal import NewEvent
from patchyard.domain.errors import UsageError
from patchyard.domain.events import Moved, Noted, PlanCreated, TurnRequested, TurnTaken
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.state import PlanState
from patchyard.engine.ledger import Ledger, Store
from patchyard.engine.rows import body_of
from patchyard.engine.verifying import Verification, verify
from patchyard.stores.purse import SQLitePurse
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio

CLOCK = SystemClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "patchyard.db"


@pytest.fixture
async def ledger(path: Path) -> AsyncIterator[Ledger]:
    """A plan of eight events, the last but one with a body beside it."""
    journal = SQLiteJournal.open(path)
    ledger = Ledger(
        Store(journal=journal, summaries=journal, purse=SQLitePurse(journal)),
        CLOCK,
        PlanState(plan_id="P"),
    )
    queued = Moved(phase=Phase.STRATEGIZE, state=State.QUEUED)
    await ledger.record(PlanCreated(spec=PlanSpec(task="mend", repository="/srv/repo")), queued)
    await ledger.record(Moved(phase=Phase.STRATEGIZE, state=State.PROCESSING))
    await ledger.record(Noted(text="a"), Noted(text="b"), TurnRequested(turn=1))
    await ledger.record(TurnTaken(turn=1, note="", body=body_of("long " * 1000)))
    ledger.note(Noted(text="c"))
    yield ledger
    await journal.close()


async def checked(ledger: Ledger, *, head: str | None = None) -> Verification:
    return await verify(ledger._store.journal, ledger.plan_id, head=head)


def meddle(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute(sql).rowcount == 1
    connection.commit()
    connection.close()


async def test_what_was_written_is_whole(ledger: Ledger) -> None:
    noted = await ledger.head()
    await ledger.record(Noted(text="later"))
    found = await checked(ledger, head=noted)
    assert (found.events, found.blobs, found.problems) == (9, 1, ())
    assert found.head == await ledger.head() != noted
    assert await ledger.head() == (await ledger._store.journal.entries("P"))[-1].hash


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("""UPDATE events SET body = '{"text":"x"}' WHERE version = 4""", "event 4 (Noted) is not"),
        ("UPDATE events SET at = at + 1 WHERE version = 4", "event 4 (Noted) is not"),
        ("UPDATE events SET body = '{' WHERE version = 4", "event 4 of P cannot be read"),
        ("DELETE FROM events WHERE version = 4", "event 4 is missing"),
        ("UPDATE events SET type = 'Nothing' WHERE version = 4", "of an unknown kind"),
        ("DELETE FROM bodies", "event 7 (TurnTaken): the body"),
        ("UPDATE bodies SET data = x'00'", "is damaged in the journal"),
    ],
)
async def test_what_was_changed_is_named(ledger: Ledger, path: Path, sql: str, said: str) -> None:
    await ledger.head()
    meddle(path, sql)
    found = await checked(ledger)
    assert any(said in problem for problem in found.problems), found.problems


async def test_a_plan_of_a_version_without_hashes_is_no_damaged_one(
    ledger: Ledger, path: Path
) -> None:
    await ledger.head()
    connection = sqlite3.connect(path)
    connection.executescript("UPDATE events SET hash = ''; DELETE FROM heads")
    connection.close()
    (path.with_suffix(".heads") / "P").unlink()
    found = await checked(ledger)
    assert (found.problems, found.is_hashed, found.head) == ((), False, "")
    await ledger.record(Noted(text="later"))
    hashed = await checked(ledger)
    assert (hashed.problems, hashed.is_hashed) == ((), True)
    assert hashed.head


async def test_a_cut_end_shows_by_what_the_store_has_noted(ledger: Ledger, path: Path) -> None:
    await ledger.head()
    meddle(path, "DELETE FROM events WHERE version = 8")
    assert (await checked(ledger)).problems == ("event 8 is lost",)
    meddle(path, "DELETE FROM heads")
    assert (await checked(ledger)).problems == ("event 8 is lost",)


async def test_a_cut_end_without_any_note_of_it_shows_by_a_head_noted_elsewhere(
    ledger: Ledger, path: Path
) -> None:
    head = await ledger.head()
    meddle(path, "DELETE FROM events WHERE version = 8")
    meddle(path, "DELETE FROM heads")
    (path.with_suffix(".heads") / "P").unlink()
    assert (await checked(ledger)).problems == ()
    (problem,) = (await checked(ledger, head=head)).problems
    assert head[:12] in problem


async def test_a_chain_that_fits_a_life_that_cannot_be_is_found(ledger: Ledger) -> None:
    created, queued, processing = (await ledger._store.journal.read("P"))[:3]
    forged = [
        NewEvent(type=event.type, schema=event.schema, at=event.at, body=event.body)
        for event in (created, processing, queued)
    ]
    await ledger._store.journal.append("Q", 0, forged)
    (problem,) = (await verify(ledger._store.journal, "Q")).problems
    assert "processing" in problem


async def test_what_is_no_plan_and_no_hash_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="no plan"):
        await verify(ledger._store.journal, "none")
    for head in ("abc", "x" * 64):
        with pytest.raises(UsageError, match="no hash"):
            await checked(ledger, head=head)
