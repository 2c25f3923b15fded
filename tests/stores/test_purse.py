"""The shared purse on SQLite: whatever several processes do, no limit is ever passed."""

import asyncio
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from patchyard.contracts.journal import NewEvent
from patchyard.domain.booking import (
    Account,
    Booking,
    Bound,
    Charged,
    Move,
    SetAside,
    Settled,
    accounts,
)
from patchyard.domain.budget import MEASURES, Amount, Ceiling, Tally
from patchyard.domain.errors import Conflict, LimitReached
from patchyard.stores.purse import SQLitePurse
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio

T = TypeVar("T")
DAYS = ("2026-11-21", "2026-11-22")
PROJECTS = ("", "shop", "blog")
EVENT = NewEvent(type="Noted", schema=1, at=1.0, body={"text": "x"})


@pytest.fixture
def journals(tmp_path: Path) -> Iterator[tuple[SQLiteJournal, SQLiteJournal]]:
    opened = tuple(SQLiteJournal.open(tmp_path / "patchyard.db") for _ in range(2))
    yield opened[0], opened[1]
    for journal in opened:
        journal._connection.close()


def booking(*moves: Move, limit: int | None = None, project: str = "") -> Booking:
    bounds = [Bound(account=Account(), ceiling=Ceiling(tokens=limit))]
    return Booking(project=project, day=DAYS[0], moves=moves, bounds=tuple(bounds))


def tokens(number: int) -> Amount:
    return Amount(tokens=number)


async def tally(journal: SQLiteJournal) -> Tally:
    return (await SQLitePurse(journal).tallies([Account()]))[Account()]


async def test_what_is_set_aside_is_written_with_its_event_or_neither_is(
    journals: tuple[SQLiteJournal, SQLiteJournal],
) -> None:
    here, there = journals
    await here.append("P", 0, [EVENT], booking=booking(SetAside(number=1, amount=tokens(60))))
    refused = booking(SetAside(number=1, amount=tokens(41)), limit=100)
    with pytest.raises(LimitReached):
        await there.append("Q", 0, [EVENT], booking=refused)
    assert await here.read("Q") == []
    with pytest.raises(Conflict):
        await there.append("P", 0, [EVENT], booking=booking(Charged(amount=tokens(5))))
    assert await tally(there) == Tally(reserved=tokens(60))


async def test_what_is_settled_frees_the_rest_for_others_once(
    journals: tuple[SQLiteJournal, SQLiteJournal],
) -> None:
    here, there = journals
    await here.append("P", 0, [EVENT], booking=booking(SetAside(number=1, amount=tokens(90))))
    settled = booking(Settled(number=1, amount=tokens(30)))
    await here.append("P", 1, [EVENT], booking=settled)
    await here.append("P", 2, [EVENT], booking=settled)
    assert await tally(there) == Tally(spent=tokens(30))
    more = booking(SetAside(number=1, amount=tokens(70)), limit=100)
    await there.append("Q", 0, [EVENT], booking=more)
    assert await SQLitePurse(here).holders() == {"Q": tokens(70)}


async def test_what_the_dead_held_counts_as_all_of_it_and_is_settled_once(
    journals: tuple[SQLiteJournal, SQLiteJournal],
) -> None:
    here, there = journals
    await here.append("P", 0, [EVENT], booking=booking(SetAside(number=1, amount=tokens(90))))
    purse = SQLitePurse(there)
    await purse.lose("P")
    await purse.lose("P")
    assert await tally(here) == Tally(spent=tokens(90))
    await here.append("P", 1, [EVENT], booking=booking(Settled(number=1, amount=tokens(1))))
    assert await tally(here) == Tally(spent=tokens(90))
    assert await purse.holders() == {}


async def test_what_has_happened_is_booked_even_where_there_is_no_room(
    journals: tuple[SQLiteJournal, SQLiteJournal],
) -> None:
    here, _ = journals
    due = booking(Charged(amount=tokens(500), is_due=True), limit=100)
    await SQLitePurse(here).book("P", due)
    assert await tally(here) == Tally(spent=tokens(500))
    with pytest.raises(LimitReached):
        await SQLitePurse(here).book("P", booking(Charged(amount=tokens(1)), limit=100))


AMOUNTS = st.builds(
    Amount,
    nano_usd=st.integers(0, 40),
    tokens=st.integers(0, 40),
    steps=st.integers(0, 2),
    calls=st.integers(0, 2),
    ms=st.integers(0, 40),
)
CEILINGS = st.builds(Ceiling, **{name: st.none() | st.integers(0, 120) for name in MEASURES})
PLANS = st.sampled_from(["P", "Q", "R", "S"])
NUMBERS = st.integers(1, 4)


class PurseMachine(RuleBasedStateMachine):
    """Plans in three processes reserve, settle, lose and charge while limits are changed."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "patchyard.db"
        self.journals = [SQLiteJournal.open(path) for _ in range(3)]
        self.ceilings: dict[Account, Ceiling] = {}
        self.held: dict[tuple[str, int], tuple[str, str, Amount]] = {}
        self.books: dict[Account, Tally] = {}
        self.passed: set[tuple[Account, str]] = set()  # by a limit that was lowered

    def teardown(self) -> None:
        for journal in self.journals:
            journal._connection.close()
        self.folder.cleanup()

    def run_(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)

    def purse(self, place: int) -> SQLitePurse:
        return SQLitePurse(self.journals[place])

    def add(self, project: str, day: str, *, spent: Amount, held: Amount) -> None:
        for account in accounts(project, day):
            old = self.books.get(account, Tally())
            self.books[account] = Tally(spent=old.spent + spent, reserved=old.reserved + held)

    def bounds(self, project: str, day: str) -> tuple[Bound, ...]:
        found = [(one, self.ceilings.get(one)) for one in accounts(project, day)]
        return tuple(Bound(account=one, ceiling=each) for one, each in found if each is not None)

    def has_room(self, project: str, day: str, amount: Amount) -> bool:
        for bound in self.bounds(project, day):
            taken = self.books.get(bound.account, Tally()).taken
            for name in MEASURES:
                limit, more = getattr(bound.ceiling, name), getattr(amount, name)
                if limit is not None and more and getattr(taken, name) + more > limit:
                    return False
        return True

    @rule(
        place=st.integers(0, 2), plan=PLANS, number=NUMBERS, amount=AMOUNTS,
        project=st.sampled_from(PROJECTS), day=st.sampled_from(DAYS),
    )  # fmt: skip
    def reserve(
        self, place: int, plan: str, number: int, amount: Amount, project: str, day: str
    ) -> None:
        if (plan, number) in self.held:
            return
        moves = (SetAside(number=number, amount=amount),)
        asked = Booking(project=project, day=day, moves=moves, bounds=self.bounds(project, day))
        try:
            self.run_(self.purse(place).book(plan, asked))
        except LimitReached:
            assert not self.has_room(project, day, amount)
        else:
            assert self.has_room(project, day, amount)
            self.held[plan, number] = (project, day, amount)
            self.add(project, day, spent=Amount(), held=amount)

    @rule(place=st.integers(0, 2), plan=PLANS, number=NUMBERS, part=st.floats(0, 1))
    def settle(self, place: int, plan: str, number: int, part: float) -> None:
        project, day, kept = self.held.pop((plan, number), ("", DAYS[0], Amount()))
        came = Amount(**{name: int(getattr(kept, name) * part) for name in MEASURES})
        moves = (Settled(number=number, amount=came),)
        settled = Booking(project="elsewhere", day=DAYS[1], moves=moves)
        self.run_(self.purse(place).book(plan, settled))
        self.add(project, day, spent=came, held=Amount() - kept)

    @rule(place=st.integers(0, 2), plan=PLANS)
    def lose(self, place: int, plan: str) -> None:
        self.run_(self.purse(place).lose(plan))
        for key in [key for key in self.held if key[0] == plan]:
            project, day, kept = self.held.pop(key)
            self.add(project, day, spent=kept, held=Amount() - kept)

    @rule(project=st.sampled_from(PROJECTS), day=st.sampled_from(("", *DAYS)), ceiling=CEILINGS)
    def set_anew(self, project: str, day: str, ceiling: Ceiling) -> None:
        account = Account(project=project, day=day)
        self.ceilings[account] = ceiling
        taken = self.books.get(account, Tally()).taken
        for name in MEASURES:
            limit = getattr(ceiling, name)
            is_passed = limit is not None and getattr(taken, name) > limit
            (self.passed.add if is_passed else self.passed.discard)((account, name))

    @invariant()
    def no_limit_is_passed(self) -> None:
        for account, tally in self.books.items():
            ceiling = self.ceilings.get(account, Ceiling())
            for name in MEASURES:
                limit = getattr(ceiling, name)
                is_within = limit is None or getattr(tally.taken, name) <= limit
                assert is_within or (account, name) in self.passed
                if is_within:
                    self.passed.discard((account, name))

    @invariant()
    def the_books_say_what_happened(self) -> None:
        found = self.run_(self.purse(0).tallies(list(self.books)))
        assert found == self.books
        kept: dict[str, Amount] = {}
        for (plan, _), (_, _, amount) in self.held.items():
            kept[plan] = kept.get(plan, Amount()) + amount
        assert self.run_(self.purse(1).holders()) == kept


TestPurseMachine = PurseMachine.TestCase
TestPurseMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
