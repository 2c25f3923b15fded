"""The whole job, in seven steps. Read this first.

    1  base        the checkout as it is becomes a tree of ours      plan_executor.strategize
    2  strategize  the actor thinks; nothing can be written          agent_loop, tool_runner
    3  setup       dependencies are installed once, kept as a layer  setup
    4  work        the actor takes turns in the sandbox              plan_executor.execute
    5  capture     what changed is read from outside                 capture
    6  proof       gates on base plus changes, in fresh places       proof; back to 4 when red
    7  hand-over   to the work tree, a branch, a patch               handing

Each step journals what it came to (ledger), so that a killed plan goes on where it was.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from patchyard.contracts.approver import Approver
from patchyard.domain.budget import PlanLimits
from patchyard.domain.changeset import Base
from patchyard.domain.errors import PatchyardError, WorkFailed
from patchyard.domain.events import LimitsChanged
from patchyard.domain.plan import Phase, PlanSpec
from patchyard.domain.queue import Errand
from patchyard.domain.state import PlanState
from patchyard.engine import control
from patchyard.engine.approving import approve_phase, command_approves
from patchyard.engine.directing import heard_late
from patchyard.engine.equipment import Equipment
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService, place, require_strategy
from patchyard.engine.plan_executor import PlanExecutor
from patchyard.engine.reverting import may_by_itself, revert
from patchyard.engine.steering import Steering, leave_pause, limits_of
from patchyard.engine.stopping import stop
from patchyard.engine.watching import Watching

Work = Callable[[Ledger, PlanExecutor, Steering], Awaitable[None]]

CANCEL_POLLS = 200  # of 50 ms: how long an owner may take to stop


class Cancelled(WorkFailed):
    """The plan was cancelled by another command."""

    code = "cancelled"


class Workflow:
    """Carries plans from task to change set, and on from wherever they stopped."""

    def __init__(
        self,
        equipment: Equipment,
        *,
        watching: Watching | None = None,
        approver: Approver | None = None,
        leaving: asyncio.Event | None = None,
        since: float | None = None,
    ) -> None:
        """Take the seams; `since`: when the plan was claimed, where that was before."""
        self._equipment = equipment
        self._watching = watching or Watching()
        self._approver = approver
        self._since = since  # words that were said later are heard
        self._leaving = leaving  # set when plans are to be left to the next worker
        self._lifecycle = PlanLifecycleService(equipment)

    async def create(self, spec: PlanSpec, *, base: Base | None = None) -> str:
        """Make a plan and return its id; without `base` strategize records one."""
        ledger = await self._lifecycle.create(spec, base=base)
        return ledger.plan_id

    async def run(self, plan_id: str) -> PlanState:
        """Strategize, execute, and apply where the plan says so; from wherever it stands.

        Raises PlanPaused while the plan is paused, ApprovalNeeded where somebody has to say so.
        """
        return await self._owned(plan_id, self._whole_way, Errand.RUN, ends_pause=False)

    async def resume(self, plan_id: str) -> PlanState:
        """Carry on as `run` does, a paused plan too."""
        return await self._owned(plan_id, self._whole_way, Errand.RUN)

    async def _whole_way(self, ledger: Ledger, executor: PlanExecutor, steering: Steering) -> None:
        await steering.answer_open()
        await heard_late(ledger, steering)
        while True:
            await executor.strategize()  # 1 and 2
            await steering.step()
            await approve_phase(ledger, steering, Phase.EXECUTE)
            try:
                await executor.execute()  # 3 to 6
                break
            except PatchyardError as error:
                if not may_by_itself(error, ledger.state):
                    raise
            by = f"profile {ledger.state.known.automation_profile}"
            await revert(self._equipment, ledger, to=Phase.STRATEGIZE, by=by)
        handing = Handing(self._equipment, ledger)
        if ledger.state.known.apply_to != "none":
            await approve_phase(ledger, steering, Phase.APPLY)
        await handing.hand_over()  # 7

    async def strategize(self, plan_id: str) -> PlanState:
        """Only plan; idempotent once complete."""
        return await self._owned(
            plan_id, lambda _, executor, __: executor.strategize(), Errand.STRATEGIZE
        )

    async def execute(self, plan_id: str, *, environment: str | None = None) -> PlanState:
        """Only execute and prove, in `environment` where it is said (A12).

        Refused unless strategize is complete (B14). Who says so approves that it begins.
        """

        async def work(ledger: Ledger, executor: PlanExecutor, _: Steering) -> None:
            require_strategy(ledger.state)
            if environment is not None:
                await place(self._equipment, ledger, environment, "--execution-environment")
            await command_approves(ledger, Phase.EXECUTE)
            await executor.execute()

        return await self._owned(plan_id, work, Errand.EXECUTE)

    async def _owned(
        self, plan_id: str, work: Work, errand: Errand, *, ends_pause: bool = True
    ) -> PlanState:
        """Do `work` on a plan that this process owns, while listening to others."""
        said = await control.words(self._equipment.store.journal, plan_id, before=self._since)
        listener = self._watching.on_event
        async with self._lifecycle.owned(plan_id, errand=errand, listener=listener) as ledger:
            by_person = self._leaving is None  # a worker's errand ends no pause
            await leave_pause(ledger, is_allowed=ends_pause and by_person)
            steering = Steering(
                self._equipment,
                ledger,
                approver=self._approver,
                leaving=self._leaving,
                after=said,
            )
            executor = PlanExecutor(
                self._equipment,
                ledger,
                steering,
                carry=self._carried,
                watching=self._watching,
            )
            job = asyncio.ensure_future(work(ledger, executor, steering))
            ledger.on_loss(job.cancel)
            ear = asyncio.ensure_future(self._obey(plan_id, job, steering, executor, after=said))
            try:
                await job
            except asyncio.CancelledError:
                job.cancel()
                await asyncio.wait([job])
                if _is_interrupted() and ledger.is_of_a_worker:
                    raise  # it stays as it is, for the next worker
                await stop(self._equipment, ledger, "cancelled")
                if _is_interrupted():
                    raise
                raise Cancelled(hint=f"`agents plan resume {plan_id}` carries it on") from None
            finally:
                ear.cancel()
                await asyncio.wait([ear])
            return ledger.state

    async def _carried(self, plan_id: str, limits: PlanLimits) -> PlanState:
        """Carry a colleague's plan to its end, watched by nobody, within what is left for it.

        It is this plan's to carry on: no worker takes it up alone.
        """
        colleague = Workflow(self._equipment, approver=self._approver, leaving=self._leaving)

        async def work(ledger: Ledger, executor: PlanExecutor, steering: Steering) -> None:
            seconds = limits.seconds  # its own time is in them already
            if seconds is not None:
                seconds += ledger.state.spent.seconds
            await ledger.record(LimitsChanged(limits=replace(limits, seconds=seconds)))
            await colleague._whole_way(ledger, executor, steering)

        return await colleague._owned(plan_id, work, Errand.NONE)

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
                executor.deadline.set(limits_of(word).seconds)

        await control.listen(self._equipment.store.journal, plan_id, heard, after=after)

    async def cancel(self, plan_id: str) -> PlanState:
        """Stop a plan and its whole process tree, whoever works on it."""
        await self._equipment.queue.withdraw(plan_id)
        if await self._equipment.claims.holder(plan_id):
            await control.say(
                self._equipment.store.journal, self._equipment.clock, plan_id, control.CANCEL
            )
            for _ in range(CANCEL_POLLS):
                if not await self._equipment.claims.holder(plan_id):
                    break
                await asyncio.sleep(0.05)
        async with self._lifecycle.owned(plan_id) as ledger:
            await stop(self._equipment, ledger, "cancelled")
            return ledger.state


def _is_interrupted() -> bool:
    """Whether this very task was cancelled (Ctrl-C), not only the job it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


__all__ = ["CANCEL_POLLS", "Cancelled", "Work", "Workflow"]
