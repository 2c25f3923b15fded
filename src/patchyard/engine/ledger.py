"""One plan's journal while it is worked on: records events, keeps the folded state at hand."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from patchyard.contracts.claims import Hold
from patchyard.contracts.clock import Clock
from patchyard.contracts.journal import Fencing, Journal, NewEvent, StoredEvent, Summaries
from patchyard.contracts.purse import Budgets, Purse
from patchyard.domain.booking import (
    Account,
    Booking,
    Bound,
    Move,
    accounts,
    day_of,
    is_refusable,
)
from patchyard.domain.budget import Ceiling, Tally
from patchyard.domain.errors import UsageError
from patchyard.domain.events import (
    SCHEMA,
    TYPES,
    Body,
    Event,
    Moved,
    PlanCreated,
    Resumed,
    TurnRequested,
)
from patchyard.domain.fold import fold
from patchyard.domain.plan import State
from patchyard.domain.queue import Taken
from patchyard.domain.spending_fold import moves
from patchyard.domain.state import PlanState
from patchyard.engine.integrity import intact
from patchyard.engine.listed import stand, summary
from patchyard.engine.packing import Part, parts_of_body
from patchyard.engine.rows import Vocabulary, from_rows, read_body, read_record, to_row, uncollected

PLAN = Vocabulary(types=TYPES, schema=SCHEMA)

SLEPT_S = 10.0  # that the clock went on by more than time did; a clock set right moves by less

Listener = Callable[[Event], None]
T = TypeVar("T")


class Unbounded:
    """contracts.purse.Budgets without any limit."""

    async def bounds(self, _project: str, _day: str) -> Sequence[Bound]:
        """See contracts.purse.Budgets."""
        return ()


UNBOUNDED = Unbounded()


@dataclass(frozen=True, kw_only=True)
class Store:
    """Where the ledger writes: the journal, the summaries beside it, and what bounds both."""

    journal: Fencing
    summaries: Summaries
    purse: Purse
    budgets: Budgets = UNBOUNDED  # of that purse


class Ledger:
    """The only writer of one plan's stream. What `record` was given is on disk when it returns."""

    def __init__(
        self, store: Store, clock: Clock, state: PlanState, *, hold: Hold | None = None
    ) -> None:
        self.hold = hold  # on the plan; None: nobody else can know of the plan yet, or a reader
        self._store = store
        self._journal = store.journal if hold is None else store.journal.fenced(hold.lease)
        self._clock = clock
        self.state = state
        self.listeners: list[Listener] = []
        self._seen = (clock.now(), clock.monotonic())
        self._is_new_life = False  # of a plan that another process may have left in its work
        self._noted: list[NewEvent] = []
        self._untold: list[Event] = []  # that listeners hear of once they are on disk
        self._bodies: dict[str, bytes] = {}
        self._moves: list[Move] = []  # of what was noted, in the shared purse
        self._read: Sequence[tuple[int, float, Event]] = ()  # from the first on, while it is kept
        self._turn = asyncio.Lock()  # of those who write, one after the other
        self._late: list[tuple[float, Event]] | None = None  # noted while that goes on

    @classmethod
    async def open(
        cls,
        store: Store,
        clock: Clock,
        plan_id: str,
        *,
        hold: Hold | None = None,
        is_checked: bool = False,
    ) -> "Ledger":
        """Read plan `plan_id` from the journal. Raises UsageError when there is no such plan.

        Where it is owned, or `is_checked` says so, something is going to be made of its events:
        they are checked against their hashes. Raises JournalBroken when one does not fit.
        """
        read = load if hold is None and not is_checked else _checked
        with uncollected():
            state, events = await read(store.journal, plan_id)
        ledger = cls(store, clock, state, hold=hold)
        ledger._read = events
        ledger._is_new_life = hold is not None
        return ledger

    @property
    def is_of_a_worker(self) -> bool:
        """Whether a worker owns the plan, and not a command that somebody waits for."""
        return self.hold is not None and bool(self.hold.lease.worker)

    def sole(self) -> AbstractAsyncContextManager[None]:
        """Alter what the plan has outside the journal; see contracts.claims.Hold.

        Raises FencedOff, Conflict. A plan that nobody else can know of needs no such right.
        """
        return self.hold.sole() if self.hold is not None else nullcontext()

    def on_loss(self, told: Callable[[], object]) -> None:
        """Have `told` called once another process has taken the plan."""
        if self.hold is not None:
            self.hold.on_loss(told)

    def monotonic(self) -> float:
        """Return seconds that never jump back."""
        return self._clock.monotonic()

    @property
    def plan_id(self) -> str:
        """The plan this ledger is of."""
        return self.state.plan_id

    async def record(self, *events: Event) -> None:
        """Append `events`, and what was noted before them, in one step and fold them in.

        What they cost is booked with them. Tasks that record at once do so one after the other.
        Raises Conflict when another process wrote meanwhile, GuardRefused on a forbidden move,
        LimitReached where a shared budget has no room; nothing is written then.
        """
        async with self._turn:
            at = self._clock.now()
            events = (*self._woken(at, events), *events)
            after, moves = self._folded(events, at)
            is_listed = any(isinstance(event, (Moved, PlanCreated)) for event in events)
            shown = summary(after) if is_listed or stand(after) != stand(self.state) else None
            await self._write(self._encoded(events, at), after, shown, moves)
            self._tell(events)
            self._forget_past(events)

    def note(self, *events: Event) -> None:
        """Fold `events` in now; they reach the disk together with the next `record`.

        For outcomes alone, whose loss in a crash is mended by asking for them again: an intent is
        always recorded before it acts. While another task writes, they come after what it writes.
        """
        at = self._clock.now()
        events = (*self._woken(at, events), *events)
        if self._late is None:
            self._note(events, at)
        else:
            self.state, _ = self._folded(events, at)
            self._late += [(at, event) for event in events]

    def _note(self, events: Sequence[Event], at: float) -> None:
        after, moves = self._folded(events, at)
        self._noted += self._encoded(events, at)
        self._untold += events
        self._moves += moves
        self.state = after
        self._forget_past(events)

    def _woken(self, at: float, events: Sequence[Event]) -> Sequence[Event]:
        """Return what keeps out of the plan's time what nobody worked on it: a gap between lives.

        And a sleep of the machine, or a clock set anew.
        """
        (wall, steady), now = self._seen, self._clock.monotonic()
        self._seen = (at, now)
        has_slept = (at - wall) - (now - steady) > SLEPT_S
        is_working = self.state.state == State.PROCESSING
        is_said = isinstance(events[0], (Resumed, Taken))
        is_new, self._is_new_life = self._is_new_life and not is_said, False
        is_due = (has_slept or is_new) and is_working
        return (Resumed(process=os.getpid()),) if is_due else ()

    def _folded(self, events: Sequence[Event], at: float) -> tuple[PlanState, Sequence[Move]]:
        state, moved = self.state, list[Move]()
        for event in events:
            moved += moves(state, event)
            state = fold(state, [(state.version + 1, at, event)])
        return state, moved

    async def _booking(self, moved: Sequence[Move], at: float) -> Booking | None:
        """Return what is booked together with events; only what can be refused needs limits."""
        if not moved:
            return None
        project, day = self._booked_in(at)
        is_bounded = any(map(is_refusable, moved))
        bounds = await self._store.budgets.bounds(project, day) if is_bounded else ()
        return Booking(project=project, day=day, moves=tuple(moved), bounds=tuple(bounds))

    def _encoded(self, events: Sequence[Event], at: float) -> list[NewEvent]:
        return [to_row(event, PLAN, at, self._bodies) for event in events]

    async def _write(
        self,
        events: Sequence[NewEvent],
        after: PlanState,
        shown: Mapping[str, Any] | None = None,
        moves: Sequence[Move] = (),
    ) -> None:
        """Append what was noted and `events`, which make `after` of the state; by who has the turn.

        What is noted meanwhile is folded in once more, in the order of the journal.
        """
        before, self._late = self.state, []
        try:
            booking = await self._booking((*self._moves, *moves), self._clock.now())
            await self._append(before.version - len(self._noted), events, shown, booking)
            before = after
        finally:
            late, self._late, self.state = self._late, None, before
            for at, event in late:
                self._note((event,), at)

    async def _append(
        self,
        written: int,
        events: Sequence[NewEvent],
        shown: Mapping[str, Any] | None,
        booking: Booking | None,
    ) -> None:
        await self._journal.append(
            self.plan_id,
            written,
            [*self._noted, *events],
            bodies=self._bodies,
            summary=shown,
            booking=booking,
        )
        self._noted, self._bodies, self._moves = [], {}, []  # not before: they need each other
        untold, self._untold = self._untold, []
        self._tell(untold)

    async def flush(self) -> None:
        """Write what was noted."""
        async with self._turn:
            while self._noted:
                await self._write([], self.state)

    async def relist(self) -> None:
        """Write anew what lists show of the plan."""
        async with self._turn:
            await self._write([], self.state, summary(self.state))

    def _forget_past(self, events: Sequence[Event]) -> None:
        if any(isinstance(event, TurnRequested) for event in events):
            self._read = ()  # the plan is taken up: its past is asked for as a whole no more

    def _tell(self, events: Sequence[Event]) -> None:
        """Say what is on disk: nothing that somebody heard of is lost with the power."""
        for event in events:
            for listener in self.listeners:
                listener(event)

    async def book(self, *moved: Move) -> None:
        """Book what belongs to no event. Raises LimitReached; nothing is booked then."""
        booking = await self._booking(moved, self._clock.now())
        if booking is not None:
            await self._store.purse.book(self.plan_id, booking)

    async def lose(self) -> None:
        """Settle all that an earlier owner of the plan has set aside at its most."""
        await self._store.purse.lose(self.plan_id)

    async def accounts(self) -> Sequence[tuple[Account, Ceiling, Tally]]:
        """Return the shared accounts that the plan counts in, with their limits of now."""
        project, day = self._booked_in(self._clock.now())
        found = accounts(project, day)
        bounds = await self._store.budgets.bounds(project, day)
        ceilings = {bound.account: bound.ceiling for bound in bounds}
        tallies = await self._store.purse.tallies(found)
        return [(each, ceilings.get(each, Ceiling()), tallies[each]) for each in found]

    def _booked_in(self, at: float) -> tuple[str, str]:
        """Return the project and the day that something counts in."""
        spec = self.state.spec
        return (spec.project or "" if spec is not None else "", day_of(at))

    async def value(self, body: Body) -> Any:
        """Return the JSON value of `body`, read from its blob when it is not inline."""
        return await read_body(self._store.journal, body)

    async def parts(self, body: Body) -> Iterator[Part]:
        """Return the value of `body` by pieces, each with the name of the part that it is of."""
        return await parts_of_body(self._store.journal, body)

    async def loaded(self, body: Body, record: type[T]) -> T:
        """Return the record that `body` holds, one of many entries without its JSON value."""
        return await read_record(self._store.journal, body, record)

    async def events(self, *, after: int = 0) -> Sequence[tuple[int, float, Event]]:
        """Return the plan's events after version `after`; what was noted is written first."""
        await self.flush()
        journal, plan_id = self._store.journal, self.plan_id
        if not self._read:
            return await read_events(journal, plan_id, after=after)
        newer = await read_events(journal, plan_id, after=len(self._read))
        self._read = [*self._read, *newer] if newer else self._read
        return self._read[after:]

    async def head(self) -> str:
        """Return the hash of the plan's last event; what was noted is written first."""
        await self.flush()
        last = self.state.version - 1
        entries = await self._store.journal.entries(self.plan_id, after=last)
        return entries[-1].hash


async def _checked(
    journal: Journal, plan_id: str
) -> tuple[PlanState, Sequence[tuple[int, float, Event]]]:
    """As `load`, and each event has the hash that it was written with."""
    rows = StoredEvent.of_all(await intact(journal, plan_id))
    return _known(plan_id, await from_rows(rows, PLAN, journal))


async def read_events(
    journal: Journal, plan_id: str, *, after: int = 0
) -> Sequence[tuple[int, float, Event]]:
    """Return the events of one plan, each with its version and time."""
    return await from_rows(await journal.read(plan_id, after=after), PLAN, journal)


async def load(
    journal: Journal, plan_id: str
) -> tuple[PlanState, Sequence[tuple[int, float, Event]]]:
    """Read and fold one plan; return its state and its events."""
    return _known(plan_id, await read_events(journal, plan_id))


def _known(
    plan_id: str, events: Sequence[tuple[int, float, Event]]
) -> tuple[PlanState, Sequence[tuple[int, float, Event]]]:
    if not events:
        raise UsageError(
            f"there is no plan {plan_id} in this database",
            hint="`agents plan list` shows the plans; PATCHYARD_HOME chooses the database",
        )
    return fold(PlanState(plan_id=plan_id), events), events


__all__ = [
    "PLAN",
    "SLEPT_S",
    "Ledger",
    "Listener",
    "Store",
    "Unbounded",
    "load",
    "read_events",
]
