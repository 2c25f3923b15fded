"""The life of a worker: it joins, takes what is due, and leaves without losing anything."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from patchyard.domain.announcing import Skills
from patchyard.domain.errors import FencedOff, NameTaken, Outdated
from patchyard.domain.queue import Job, Limits
from patchyard.engine.dispatcher import Dispatcher, Told
from patchyard.engine.enduring import Enduring
from patchyard.engine.equipment import Equipment
from patchyard.engine.herald import Herald

POLL_S = 0.25  # between two looks at the queue
REAP_S = 1.0  # between two looks for the dead
CANCEL_S = 15.0  # for environments to end, once their plans are cancelled


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How a worker works."""

    name: str
    concurrency: int
    limits: Limits = field(default_factory=Limits)
    roles: tuple[str, ...] = ()  # whose plans alone it takes; empty: all
    skills: Skills = field(default_factory=Skills)  # that it announces
    drain_s: float = 30.0  # how long plans may take to come to a stop when it leaves


class Worker:
    """Takes jobs from the queue until it is told to drain."""

    def __init__(
        self, equipment: Equipment, dispatcher: Dispatcher, terms: Terms, *, told: Told
    ) -> None:
        self._crew = equipment.crew
        self._queue = equipment.queue
        self._clock = equipment.clock
        self._dispatcher = dispatcher
        self._terms = terms
        self._told = told
        self._endures = Enduring(told, through=(FencedOff, NameTaken, Outdated))
        self._draining = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._reaped = float("-inf")
        self._herald = Herald(equipment, terms.skills)

    def drain(self) -> None:
        """Take no new job, bring the running ones to a stop, leave."""
        self._draining.set()

    async def run(self, jobs: Sequence[Job] = ()) -> None:
        """Work until drained. `jobs` are those that are always there: the chores.

        Raises Conflict when a living worker has the name, Outdated once the database is of a newer
        version.
        """
        terms = self._terms
        self._herald.joined(await self._crew.join(terms.name, terms.concurrency))
        for job in jobs:
            await self._queue.put(job)
        try:
            while not self._draining.is_set():
                await self._round()
        finally:
            await self._leave()

    async def _round(self) -> None:
        """Look once: for the dead, for what is due; then wait a moment.

        A database that is locked or full may not stay so. An outdated worker ends: all that it
        would write is refused.
        """
        with self._endures.passing(""):
            try:
                await self._look()
            except FencedOff:
                await self._begin_again()
        await self._wait(self._running, POLL_S)

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._reaped >= REAP_S:
            self._reaped = now
            with self._endures.passing("plans of dead processes"):
                await self._dispatcher.adopt()
        room = self._terms.concurrency - len(self._running)
        since = self._clock.now()  # a cancel that comes between counts
        terms = self._terms
        for hold, job in await self._crew.claim(room, terms.limits, roles=terms.roles):
            doing = self._dispatcher.carry_out(hold, job, since=since)
            task = asyncio.create_task(doing, name=job.job_id)
            self._running.add(task)
            task.add_done_callback(self._ended)
        await self._herald.announce(len(self._running))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._told(f"{task.get_name()}: {error!r}")

    async def _begin_again(self) -> None:
        """Give up what another worker has by now, and be a new member."""
        self._told("this worker was taken for dead: it begins again")
        await self._cancelled(list(self._running))
        terms = self._terms
        self._herald.joined(await self._crew.join(terms.name, terms.concurrency))

    async def _wait(self, running: set[asyncio.Task[None]], seconds: float) -> None:
        """Wait until a job ends, a drain begins, or the time is over."""
        waking = asyncio.ensure_future(self._draining.wait())
        try:
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait({waking, *running}, timeout=seconds, return_when=first)
        finally:
            waking.cancel()

    async def _leave(self) -> None:
        running = list(self._running)
        if running:
            with self._endures.passing("leaving"), suppress(FencedOff):
                await self._crew.leave(is_draining=True)
                await self._herald.announce(len(running), is_draining=True)
            self._told(f"stopping {len(running)}")
            self._dispatcher.leaving.set()
            await asyncio.wait(running, timeout=self._terms.drain_s)
        await self._cancelled([task for task in running if not task.done()])
        with self._endures.passing("leaving"), suppress(FencedOff):  # its end does as much
            await self._crew.leave()

    async def _cancelled(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_S)


__all__ = ["POLL_S", "REAP_S", "Terms", "Worker"]
