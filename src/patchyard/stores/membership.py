"""One process among those that own plans: its seat, and its signs of life.

They come from a thread of its own, so that a busy event loop does not look dead.
"""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from patchyard.contracts.clock import Clock
from patchyard.domain.errors import FencedOff
from patchyard.domain.queue import DEAD_S, HEARTBEAT_S, Lease, Member
from patchyard.engine.enduring import Enduring
from patchyard.stores import leasing
from patchyard.stores.sole import Sole
from patchyard.stores.sqlite import SQLiteJournal
from patchyard.stores.stuck import STUCK_S, end_stopped_writer

FRESH_S = DEAD_S - HEARTBEAT_S  # a sign of life that is older is renewed before it is relied on
BEAT = "UPDATE members SET beat = ? WHERE member = ?"


class Heart:
    """Gives one member's signs of life, by a connection of its own, until told to stop."""

    def __init__(self, path: Path, member_id: str, clock: Clock) -> None:
        self.member_id = member_id
        self.last = clock.monotonic()  # sign of life that is on disk
        self._path = path
        self._clock = clock
        self._stopping = threading.Event()
        self._told: dict[str, Callable[[], object]] = {}  # by job
        self._endures = Enduring()

    def start(self) -> None:
        """Begin; who listens for the loss is told in this event loop."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, args=(loop,), name="heartbeat", daemon=True).start()

    def on_loss(self, job_id: str, told: Callable[[], object]) -> None:
        """Have `told` called once the member was taken for dead, unless the job is over by then."""
        self._told[job_id] = told

    def is_over(self, job_id: str) -> None:
        """Tell nobody of this job any more."""
        self._told.pop(job_id, None)

    def stop(self) -> None:
        """Give no further sign of life; nobody is told of anything any more."""
        self._told.clear()
        self._stopping.set()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        connection: sqlite3.Connection | None = None
        while not self._stopping.wait(HEARTBEAT_S):
            try:
                connection = connection or sqlite3.connect(
                    self._path, timeout=STUCK_S, isolation_level=None
                )
                is_known = self._beat(connection)
            except sqlite3.Error:
                continue  # silent meanwhile; who relies on it asks `confirm`
            except Exception as error:  # noqa: BLE001 - a heart that stops ends all that is owned
                self._endures.tell("the heartbeat", error)
                continue
            if not is_known:
                self._tell(loop)
                break
        if connection is not None:
            connection.close()

    def _beat(self, connection: sqlite3.Connection) -> bool:
        """As `beat`; once more when who held the file all the while was stopped and is ended."""
        try:
            return self.beat(connection)
        except sqlite3.OperationalError:
            end_stopped_writer(connection)
            return self.beat(connection)

    def beat(self, connection: sqlite3.Connection) -> bool:
        """Give a sign of life; return False when the member is known no more."""
        now = self._clock.monotonic()
        if connection.execute(BEAT, (now, self.member_id)).rowcount == 0:
            return False
        self.last = now
        return True

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        for told in list(self._told.values()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(told)


class Membership:
    """This process, as the others see it. Entered with its first claim."""

    def __init__(self, journal: SQLiteJournal, path: Path, clock: Clock) -> None:
        self.journal = journal
        self._path = path
        self._clock = clock
        self._seat = leasing.seat_here()
        self._heart: Heart | None = None
        self._member = self._new(f"process {os.getpid()}", concurrency=0)

    def _new(self, name: str, *, concurrency: int) -> Member:
        return Member(
            member_id=self._clock.new_id(),
            name=name,
            seat=self._seat,
            beat=self._clock.monotonic(),
            since=self._clock.now(),
            concurrency=concurrency,
        )

    @property
    def member(self) -> Member:
        """Who this process is."""
        return self._member

    def become(self, name: str, *, concurrency: int) -> None:
        """Be somebody new from now on, to be entered: who was taken for dead never comes back."""
        self.rest()
        self._member = self._new(name, concurrency=concurrency)

    def sole(self, job_id: str) -> Sole:
        """Return what keeps the owners of a job from altering its files together."""
        return Sole(self._path.with_suffix(".owners") / job_id)

    def is_dead(self, other: Member) -> bool:
        """Whether another member has ended, or is silent for too long."""
        return leasing.is_dead(other, self._seat, self._clock.monotonic())

    def enter(self, connection: sqlite3.Connection) -> None:
        """Be among the members, within the transaction of a claim.

        Raises FencedOff when it was entered before and has been taken for dead.
        """
        if self._heart is None:
            self._member = self._new(self._member.name, concurrency=self._member.concurrency)
            leasing.enrol(connection, self._member)
        elif not self._heart.beat(connection):
            raise FencedOff

    def live(self) -> None:
        """Begin to give signs of life, once entered."""
        if self._heart is None:
            self._heart = Heart(self._path, self._member.member_id, self._clock)
            self._heart.start()

    def rest(self) -> None:
        """Give no further sign of life."""
        if self._heart is not None:
            self._heart.stop()
            self._heart = None

    async def confirm(self, lease: Lease) -> None:
        """Raise FencedOff unless this process still lives for the others and holds `lease`."""
        heart = self._heart
        if heart is None or heart.member_id != lease.member_id:
            raise FencedOff
        if self._clock.monotonic() - heart.last > FRESH_S:
            await self.journal.within(lambda connection: self._renew(connection, lease))

    def _renew(self, connection: sqlite3.Connection, lease: Lease) -> None:
        leasing.require(connection, lease)
        self.enter(connection)

    def on_loss(self, job_id: str, told: Callable[[], object]) -> None:
        """Have `told` called in the event loop once this process was taken for dead."""
        if self._heart is not None:
            self._heart.on_loss(job_id, told)

    def is_over(self, job_id: str) -> None:
        """Tell nobody of this job any more: its lease was given back."""
        if self._heart is not None:
            self._heart.is_over(job_id)
        self.sole(job_id).forget()


class Held:
    """contracts.claims.Hold of one lease of this process."""

    def __init__(self, membership: Membership, lease: Lease) -> None:
        self._membership = membership
        self._sole = membership.sole(lease.job_id)
        self.lease = lease

    @asynccontextmanager
    async def sole(self) -> AsyncIterator[None]:
        """See contracts.claims.Hold."""
        async with self._sole.within():
            await self.confirm()
            yield

    async def confirm(self) -> None:
        """See contracts.claims.Hold."""
        await self._membership.confirm(self.lease)

    def on_loss(self, told: Callable[[], object]) -> None:
        """See contracts.claims.Hold."""
        self._membership.on_loss(self.lease.job_id, told)


__all__ = ["FRESH_S", "Heart", "Held", "Membership"]
