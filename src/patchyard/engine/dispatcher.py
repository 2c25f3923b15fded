"""Carries out jobs of the queue: each with an engine of its own, and settled once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace

from patchyard.contracts.claims import Claims, Hold
from patchyard.domain.errors import (
    ApprovalNeeded,
    FencedOff,
    GuardRefused,
    JournalBroken,
    PatchyardError,
    PlanPaused,
    StateRefusal,
    UsageError,
    WorkerLeft,
)
from patchyard.domain.plan import State
from patchyard.domain.queue import CHORE, Errand, Job, Member, job_of
from patchyard.domain.state import PlanState
from patchyard.engine.enduring import Enduring, Told
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import load
from patchyard.engine.workflow import Workflow

AT_REST = frozenset({State.ERRORED, State.CONSTRAINED, State.CANCELLED, State.APPLIED})
HOLDING = (ApprovalNeeded, GuardRefused, PlanPaused)  # until a person says something
PAUSE_S = 5.0  # before a job that could not be carried out is tried again; longer each time
TROUBLED_S = 1.0  # before the database is asked again

Opening = Callable[[], AbstractAsyncContextManager[Equipment]]
Chore = Callable[[Equipment], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Chores:
    """What workers do for the installation at intervals, one of them at a time."""

    work: Mapping[str, Chore]
    every_s: Mapping[str, float]

    def jobs(self) -> tuple[Job, ...]:
        """Return the job of each."""
        return tuple(
            Job(job_id=f"{CHORE}{name}", errand=Errand.CHORE, every_s=self.every_s[name])
            for name in sorted(self.work)
        )


class Given:
    """contracts.claims.Claims of one plan that is owned already; settled by who gave it."""

    def __init__(self, claims: Claims, hold: Hold) -> None:
        self._claims = claims
        self._hold = hold

    @asynccontextmanager
    async def claim(self, plan_id: str, *, errand: Errand = Errand.NONE) -> AsyncIterator[Hold]:
        """See contracts.claims.Claims."""
        if plan_id == self._hold.lease.job_id:
            yield self._hold
            return
        async with self._claims.claim(plan_id, errand=errand) as hold:
            yield hold

    async def holder(self, plan_id: str) -> Member | None:
        """See contracts.claims.Claims."""
        return await self._claims.holder(plan_id)


class Dispatcher:
    """Carries out one job after the other for one worker."""

    def __init__(
        self, equipment: Equipment, opening: Opening, *, chores: Chores, told: Told
    ) -> None:
        self._equipment = equipment
        self._crew = equipment.crew
        self._opening = opening
        self._chores = chores
        self._told = told
        self._pool = equipment.pool
        self._endures = Enduring(told, through=(FencedOff,))
        self.leaving = asyncio.Event()  # plans are left at their next step, for other workers

    async def adopt(self) -> None:
        """Let the plans of dead commands wait for a worker, where there is more to do."""
        for plan_id, errand in await self._crew.reap():
            with self._endures.passing(f"plan {plan_id}"):
                await self._adopt(plan_id, errand)

    async def _adopt(self, plan_id: str, errand: Errand) -> None:
        equipment = self._equipment
        try:
            state, _ = await load(equipment.store.journal, plan_id)
        except (JournalBroken, UsageError):  # it stays as it is until a person sees to it
            await equipment.queue.withdraw(plan_id)
            raise
        if state.state in AT_REST:
            await equipment.queue.withdraw(plan_id)
        else:
            await equipment.queue.adopt(job_of(plan_id, state.known, errand=errand))
            self._told(f"plan {plan_id}: its owner is gone")

    async def carry_out(self, hold: Hold, job: Job, *, since: float | None = None) -> None:
        """Do `job`, claimed at `since`, and give its lease and slots back.

        Cancelled, it is left for another worker.

        What stops a plan stands in its journal; all else that goes wrong is told, and the job is
        tried again after a pause.
        """
        error: Exception | None = None
        try:
            said = await self._done(hold, job, since)
        except FencedOff:
            self._told(f"{job.job_id}: another worker has it")
            return
        except (WorkerLeft, asyncio.CancelledError) as left:
            self._told(f"{job.job_id}: left for the next worker")
            await self._settled(hold, again_at=self._equipment.clock.now())
            if isinstance(left, asyncio.CancelledError):
                raise
            return
        except PatchyardError as failure:
            said, error = failure.message, failure
        except Exception as bug:  # noqa: BLE001 - told, counted, and tried again only so often
            said, error = repr(bug), bug
        self._told(f"{job.job_id}: {said}")
        now = self._equipment.clock.now()
        if job.every_s:
            await self._settled(hold, again_at=now + job.every_s)
        elif error is None or await self._is_for_a_person(job, error):
            await self._settled(hold)
        else:
            pause_s = PAUSE_S * 2**job.deaths
            await self._settled(hold, again_at=now + pause_s, has_failed=True)

    async def _settled(
        self, hold: Hold, *, again_at: float | None = None, has_failed: bool = False
    ) -> None:
        """Settle, again and again while the database takes nothing: it is owned until then."""
        with suppress(FencedOff):
            while True:
                with self._endures.passing("") as settling:
                    await self._crew.settle(hold, again_at=again_at, has_failed=has_failed)
                if settling.error is None:
                    return
                await asyncio.sleep(TROUBLED_S)

    async def _is_for_a_person(self, job: Job, error: Exception) -> bool:
        """Whether trying again is for somebody to say: the plan stands where it failed."""
        if isinstance(error, HOLDING):
            return True
        with self._endures.passing(job.job_id) as looking:
            state, _ = await load(self._equipment.store.journal, job.job_id)
        if looking.error is not None:
            return False
        is_refused = isinstance(error, StateRefusal) and state.state == State.COMPLETE  # an apply
        return state.state in AT_REST or is_refused

    async def _done(self, hold: Hold, job: Job, since: float | None) -> str:
        async with self._opening() as opened:
            equipment = replace(opened, claims=Given(opened.claims, hold), pool=self._pool)
            if job.errand == Errand.CHORE:
                await self._chores.work[job.job_id.removeprefix(CHORE)](equipment)
                return "done"
            self._told(f"plan {job.job_id}: begun ({job.errand})")
            workflow = Workflow(equipment, leaving=self.leaving, since=since)
            state = await _errand(workflow, job)
            if self._pool is not None:
                self._pool.follow(state)
            return f"{state.phase}/{state.state}"


async def _errand(workflow: Workflow, job: Job) -> PlanState:
    if job.errand == Errand.STRATEGIZE:
        return await workflow.strategize(job.job_id)
    if job.errand == Errand.EXECUTE:
        return await workflow.execute(job.job_id)
    return await workflow.run(job.job_id)


__all__ = [
    "AT_REST",
    "HOLDING",
    "PAUSE_S",
    "Chore",
    "Chores",
    "Dispatcher",
    "Given",
    "Opening",
    "Told",
]
