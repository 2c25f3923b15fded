"""One process at work on one plan: it owns it, listens to others meanwhile, and is stopped well."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from patchyard.contracts.approver import Approver
from patchyard.domain.errors import JournalBroken, WorkFailed
from patchyard.domain.queue import Errand
from patchyard.domain.state import PlanState
from patchyard.engine import control
from patchyard.engine.colleagues import Carry
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.parting import is_told_to_stop, parting, present
from patchyard.engine.plan_executor import PlanExecutor
from patchyard.engine.steering import Steering, leave_pause, limits_of
from patchyard.engine.stopping import stop
from patchyard.engine.watching import Watching

Work = Callable[[Ledger, PlanExecutor, Steering], Awaitable[None]]

CANCEL_POLLS = 200  # of 50 ms: how long an owner may take to stop


class Cancelled(WorkFailed):
    """The plan was cancelled by another command."""

    code = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Who works on plans: its seams, and who watches, approves and interrupts."""

    equipment: Equipment
    watching: Watching = field(default_factory=Watching)
    approver: Approver | None = None
    leaving: asyncio.Event | None = None  # set when plans are to be left to the next worker
    since: float | None = None  # when the plan was claimed; words that were said later are heard

    async def does(
        self, plan_id: str, work: Work, errand: Errand, *, carry: Carry, ends_pause: bool = True
    ) -> PlanState:
        """Do `work` on a plan that this process owns, while listening to others.

        `carry` carries another plan to its end. Raises Conflict where another process owns it,
        Cancelled where somebody says so, and whatever the work ends with.
        """
        with parting():
            return await self._done(plan_id, work, errand, carry=carry, ends_pause=ends_pause)

    async def _done(
        self, plan_id: str, work: Work, errand: Errand, *, carry: Carry, ends_pause: bool
    ) -> PlanState:
        said = await control.words(self.equipment.store.journal, plan_id, before=self.since)
        lifecycle = PlanLifecycleService(self.equipment)
        listener = self.watching.on_event
        async with lifecycle.owned(plan_id, errand=errand, listener=listener) as ledger:
            by_person = self.leaving is None  # a worker's errand ends no pause
            await leave_pause(ledger, is_allowed=ends_pause and by_person)
            steering = Steering(
                self.equipment,
                ledger,
                approver=self.approver,
                leaving=self.leaving,
                after=said,
            )
            executor = PlanExecutor(
                self.equipment, ledger, steering, carry=carry, watching=self.watching
            )
            job = asyncio.ensure_future(work(ledger, executor, steering))
            ledger.on_loss(job.cancel)
            ear = asyncio.ensure_future(self._obey(plan_id, job, steering, executor, after=said))
            try:
                await job
            except asyncio.CancelledError:
                job.cancel()
                await asyncio.wait([job])
                if is_told_to_stop() and ledger.is_of_a_worker:
                    raise  # it stays as it is, for the next worker
                present().begin()
                await stop(self.equipment, ledger, "cancelled")
                if is_told_to_stop():
                    raise
                raise Cancelled(hint=f"`agents plan resume {plan_id}` carries it on") from None
            finally:
                ear.cancel()
                await asyncio.wait([ear])
            return ledger.state

    async def _obey(
        self,
        plan_id: str,
        job: asyncio.Future[None],
        steering: Steering,
        executor: PlanExecutor,
        *,
        after: int,
    ) -> None:
        def heard(word: control.Word) -> None:
            if word.word == control.CANCEL:
                job.cancel()
            else:
                steering.hear(word)
            if word.word == control.LIMIT:
                with contextlib.suppress(
                    JournalBroken
                ):  # the plan's next step reads it, and says so
                    executor.deadline.set(limits_of(word).seconds)

        await control.listen(self.equipment.store.journal, plan_id, heard, after=after)

    async def cancels(self, plan_id: str) -> PlanState:
        """Stop a plan and its whole process tree, whoever works on it."""
        equipment = self.equipment
        await equipment.queue.withdraw(plan_id)
        if await equipment.claims.holder(plan_id):
            await control.say(equipment.store.journal, equipment.clock, plan_id, control.CANCEL)
            for _ in range(CANCEL_POLLS):
                if not await equipment.claims.holder(plan_id):
                    break
                await asyncio.sleep(0.05)
        with parting():
            async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
                await stop(equipment, ledger, "cancelled")
                return ledger.state


__all__ = ["CANCEL_POLLS", "Cancelled", "Owner", "Work"]
