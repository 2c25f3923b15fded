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

from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.changeset import Base
from patchyard.domain.codec import from_json
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import PatchyardError, WorkFailed
from patchyard.domain.events import Moved, Noted, ToolCallSettled
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.state import PlanState
from patchyard.engine import control
from patchyard.engine.equipment import Equipment
from patchyard.engine.grounds import PURPOSES, ground_name
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService, place, require_strategy
from patchyard.engine.places import ended
from patchyard.engine.plan_executor import PlanExecutor
from patchyard.engine.watching import Watching

CANCEL_POLLS = 200  # of 50 ms: how long an owner may take to stop


class Cancelled(WorkFailed):
    """The plan was cancelled by another command."""

    code = "cancelled"


class Workflow:
    """Carries plans from task to change set, and on from wherever they stopped."""

    def __init__(self, equipment: Equipment, *, watching: Watching | None = None) -> None:
        self._equipment = equipment
        self._watching = watching or Watching()
        self._lifecycle = PlanLifecycleService(equipment)

    async def create(self, spec: PlanSpec, *, base: Base | None = None) -> str:
        """Make a plan and return its id; without `base` strategize records one."""
        ledger = await self._lifecycle.create(spec, base=base)
        return ledger.plan_id

    async def run(self, plan_id: str) -> PlanState:
        """Strategize, execute, and apply where the plan says so; from wherever it stands."""

        async def work(ledger: Ledger, executor: PlanExecutor) -> None:
            await executor.strategize()  # 1 and 2
            await executor.execute()  # 3 to 6
            await Handing(self._equipment, ledger).hand_over()  # 7

        return await self._owned(plan_id, work)

    async def strategize(self, plan_id: str) -> PlanState:
        """Only plan; idempotent once complete."""
        return await self._owned(plan_id, lambda _, executor: executor.strategize())

    async def execute(self, plan_id: str, *, kind: ExecutionEnvironment | None = None) -> PlanState:
        """Only execute and prove, in `kind` where it is said (A12).

        Refused unless strategize is complete (B14).
        """

        async def work(ledger: Ledger, executor: PlanExecutor) -> None:
            require_strategy(ledger.state)
            if kind is not None:
                await place(self._equipment, ledger, kind, "--execution-environment")
            await executor.execute()

        return await self._owned(plan_id, work)

    async def _owned(
        self, plan_id: str, work: Callable[[Ledger, PlanExecutor], Awaitable[None]]
    ) -> PlanState:
        """Do `work` on a plan that this process owns, while listening for a cancel."""
        watching = self._watching
        said = await control.words(self._equipment.store.journal, plan_id)
        async with self._lifecycle.owned(plan_id, listener=watching.on_event) as ledger:
            executor = PlanExecutor(self._equipment, ledger, watching=watching)
            job = asyncio.ensure_future(work(ledger, executor))
            ear = asyncio.ensure_future(self._obey(plan_id, job, after=said))
            try:
                await job
            except asyncio.CancelledError:
                job.cancel()
                await asyncio.wait([job])
                await stop(self._equipment, ledger, "cancelled")
                if _is_interrupted():
                    raise
                raise Cancelled(hint=f"`agents plan resume {plan_id}` carries it on") from None
            finally:
                ear.cancel()
                await asyncio.wait([ear])
            return ledger.state

    async def _obey(self, plan_id: str, job: asyncio.Future[None], *, after: int) -> None:
        def heard(word: str) -> None:
            if word == "cancel":
                job.cancel()

        await control.listen(self._equipment.store.journal, plan_id, heard, after=after)

    async def cancel(self, plan_id: str) -> PlanState:
        """Stop a plan and its whole process tree, whoever works on it."""
        await self._equipment.queue.withdraw(plan_id)
        if await self._equipment.claims.holder(plan_id):
            await control.say(
                self._equipment.store.journal, self._equipment.clock, plan_id, "cancel"
            )
            for _ in range(CANCEL_POLLS):
                if not await self._equipment.claims.holder(plan_id):
                    break
                await asyncio.sleep(0.05)
        async with self._lifecycle.owned(plan_id) as ledger:
            await stop(self._equipment, ledger, "cancelled")
            return ledger.state


async def stop(equipment: Equipment, ledger: Ledger, reason: str) -> None:
    """End what is left of a plan's work and say that it is cancelled. Idempotent."""
    for live in list(ledger.state.environments.values()):
        try:
            await ended(equipment, ledger, live.handle, reason)
        except PatchyardError as error:
            await ledger.record(Noted(text=error.message))  # it stays open, to be ended again
    for call_id in list(ledger.state.open_calls):
        await ledger.record(
            ToolCallSettled(
                call_id=call_id, success=False, message="the plan was cancelled", error="CANCELLED"
            )
        )
    await _unmount(equipment, ledger)
    state = ledger.state
    cancellable = {
        (Phase.STRATEGIZE, State.QUEUED),
        (Phase.STRATEGIZE, State.PROCESSING),
        (Phase.STRATEGIZE, State.COMPLETE),
        (Phase.EXECUTE, State.QUEUED),
        (Phase.EXECUTE, State.PROCESSING),
    }
    if (state.phase, state.state) in cancellable:
        moved = Moved(phase=state.phase, state=State.CANCELLED, reason=reason)
        await ledger.record(moved)


async def _unmount(equipment: Equipment, ledger: Ledger) -> None:
    """Take away the mounts of a life that was killed; the plan's own tree keeps its content."""
    for purpose in PURPOSES:
        await equipment.workspaces.discard(ground_name(ledger.plan_id, purpose))
    if ledger.state.workspace is not None:
        await equipment.workspaces.close(from_json(WorkspaceRef, ledger.state.workspace))


def _is_interrupted() -> bool:
    """Whether this very task was cancelled (Ctrl-C), not only the job it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


__all__ = ["CANCEL_POLLS", "Cancelled", "Workflow", "stop"]
