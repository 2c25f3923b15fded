"""The whole job, in seven steps. Read this first.

    1  analysis     the checkout becomes a tree of ours; the actor thinks,
                    and nothing can be written                             plan_executor.strategize
    2  environment  the places that the plan can reach; what is installed
                    there once, as a layer                                 setup, places
    3  repository   a tree of the base to work on                          grounds
    4  model        who thinks                                             sessions
    5  execution    turns with tools, in the sandbox                       agent_loop, tool_runner
    6  validation   what changed, read from outside; gates in fresh
                    places, other roles; back to 5 when one is red         capture, proof
    7  cleanup      places end, what came of it is kept; always            stepping.tidied

1 and 4 are strategize, where 2 and 3 only make ready for reading; 2 to 7 are execute
(`plan_executor`). What is proven is handed over after them: to the work tree, a branch, a patch
(`handing`). Each step journals what it came to and how long it took (`stepping`), so that a killed
plan goes on where it was.
"""

import asyncio

from patchyard.contracts.approver import Approver
from patchyard.domain.changeset import Base
from patchyard.domain.errors import PatchyardError
from patchyard.domain.plan import Phase, PlanSpec
from patchyard.domain.queue import Errand
from patchyard.domain.state import PlanState
from patchyard.engine.approving import approve_phase, command_approves
from patchyard.engine.directing import heard_late
from patchyard.engine.equipment import Equipment
from patchyard.engine.following import Elder, Following
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService, place, require_strategy
from patchyard.engine.owning import Owner, Work
from patchyard.engine.plan_executor import PlanExecutor
from patchyard.engine.reverting import may_by_itself, revert
from patchyard.engine.steering import Steering
from patchyard.engine.watching import Watching


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
        self._approver = approver
        self._leaving = leaving
        self._owner = Owner(
            equipment=equipment,
            watching=watching or Watching(),
            approver=approver,
            leaving=leaving,
            since=since,
        )

    async def create(self, spec: PlanSpec, *, base: Base | None = None) -> str:
        """Make a plan and return its id; without `base` strategize records one."""
        ledger = await PlanLifecycleService(self._equipment).create(spec, base=base)
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
            await executor.strategize()  # 1 and 4
            await steering.step()
            await approve_phase(ledger, steering, Phase.EXECUTE)
            try:
                await executor.execute()  # 2 to 7
                break
            except PatchyardError as error:
                if not may_by_itself(error, ledger.state):
                    raise
            by = f"profile {ledger.state.known.automation_profile}"
            await revert(self._equipment, ledger, to=Phase.STRATEGIZE, by=by)
        if ledger.state.known.apply_to != "none":
            await approve_phase(ledger, steering, Phase.APPLY)
        await Handing(self._equipment, ledger).hand_over()

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

    async def cancel(self, plan_id: str) -> PlanState:
        """Stop a plan and its whole process tree, whoever works on it."""
        return await self._owner.cancels(plan_id)

    async def _owned(
        self, plan_id: str, work: Work, errand: Errand, *, ends_pause: bool = True
    ) -> PlanState:
        return await self._owner.does(
            plan_id, work, errand, carry=self._carried, ends_pause=ends_pause
        )

    async def _carried(self, plan_id: str, elder: Elder) -> PlanState:
        """Carry a colleague's plan to its end, watched by nobody, within what is left for it.

        It is this plan's to carry on: no worker takes it up alone.
        """
        colleague = Workflow(self._equipment, approver=self._approver, leaving=self._leaving)

        async def work(ledger: Ledger, executor: PlanExecutor, steering: Steering) -> None:
            await Following(elder, ledger, steering, executor.deadline).begin()
            await colleague._whole_way(ledger, executor, steering)

        return await colleague._owned(plan_id, work, Errand.NONE)


__all__ = ["Workflow"]
