"""What people tell a plan from outside: wait, go on, go back, do it that way. Each at once on disk.

Words to a plan that somebody works on go to its owner (control); else they are journalled here.
"""

import asyncio

from patchyard.domain.errors import Conflict, GuardRefused, UsageError
from patchyard.domain.events import Moved
from patchyard.domain.plan import Phase, State
from patchyard.domain.state import PlanState
from patchyard.domain.steering import (
    GUIDANCE_CHARS,
    ApprovalAsked,
    Approved,
    Guided,
    Paused,
    Rejected,
)
from patchyard.engine import control
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.reverting import revert
from patchyard.engine.rolling_back import roll_back
from patchyard.engine.steering import Steering

POLL_S = 0.05
POLLS = 600  # 30 s: how long a pause waits for the present call
DONE = (Phase.EXECUTE, State.COMPLETE)
ANEW = "begin the task anew with `agents run`"
REOPENED = Moved(phase=Phase.EXECUTE, state=State.QUEUED, reason="corrected")


class Directing:
    """Commands to one installation's plans."""

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment
        self._lifecycle = PlanLifecycleService(equipment)

    async def pause(self, plan_id: str) -> PlanState:
        """Hold a plan after its present call; return its state, paused unless that call goes on.

        Raises GuardRefused when its work is done. Cancelling this wait takes no word back.
        """
        require_unfinished(await self._state(plan_id))
        await self._withdrawn(plan_id)
        if await self._equipment.claims.holder(plan_id):
            await self._say(plan_id, control.PAUSE)
            if not await self._is_let_go(plan_id):
                return await self._state(plan_id)  # its owner holds it after the present call
        async with self._lifecycle.owned(plan_id) as ledger:
            is_over = _is_over(ledger.state)
            if not is_over and ledger.state.steered.paused is None:
                await ledger.record(Paused(reason="plan pause"))
            return ledger.state

    async def _is_let_go(self, plan_id: str) -> bool:
        """Wait until nobody works on the plan; return whether that came in time."""
        for _ in range(POLLS):
            if not await self._equipment.claims.holder(plan_id):
                return True
            await asyncio.sleep(POLL_S)
        return False

    async def prompt(self, plan_id: str, text: str, *, source: str = "prompt") -> PlanState:
        """Give guidance: it is told with the next turn, once. Raises GuardRefused, UsageError."""
        require_guidance(text)
        state = await self._state(plan_id)
        require_listener(state)
        require_unfinished(state)
        await self._say(plan_id, control.PROMPT, text=text, source=source)
        return await self._taken_in(plan_id)

    async def approve(self, plan_id: str) -> ApprovalAsked:
        """Say yes to the question that the plan waits for. Raises GuardRefused without one."""
        async with self._lifecycle.owned(plan_id) as ledger:
            asked = _open_question(ledger.state)
            by = "agents plan approve"
            await ledger.record(Approved(approval_id=asked.approval_id, digest=asked.digest, by=by))
            return asked

    async def reject(self, plan_id: str, reason: str = "") -> ApprovalAsked:
        """Say no to the question that the plan waits for. Raises GuardRefused without one."""
        async with self._lifecycle.owned(plan_id) as ledger:
            asked = _open_question(ledger.state)
            no = Rejected(
                approval_id=asked.approval_id,
                digest=asked.digest,
                by="agents plan reject",
                reason=reason[:GUIDANCE_CHARS],
            )
            await ledger.record(no)
            return asked

    async def revert(self, plan_id: str, *, to: Phase, reason: str = "") -> PlanState:
        """Take a plan back. Raises GuardRefused, Conflict while somebody works on it."""
        async with self._lifecycle.owned(plan_id) as ledger:
            await self._taken_up(ledger)
            by = "agents plan revert"
            await revert(self._equipment, ledger, to=to, reason=reason[:GUIDANCE_CHARS], by=by)
            return ledger.state

    async def correct(self, plan_id: str, mode: str, guidance: str) -> PlanState:
        """Set a plan right: `revert` plans anew with the guidance, `append` goes on with it.

        What is executed already is reopened by `append`, in the same workspace.
        """
        require_guidance(guidance)
        if mode == "revert":
            async with self._lifecycle.owned(plan_id) as ledger:
                await self._taken_up(ledger)
                by = "agents plan correct"
                await revert(self._equipment, ledger, to=Phase.STRATEGIZE, reason=guidance, by=by)
                return ledger.state
        state = await self._state(plan_id)
        require_listener(state)
        if (state.phase, state.state) != DONE and not _is_taken_back(state):
            return await self.prompt(plan_id, guidance, source="correct")
        async with self._lifecycle.owned(plan_id) as ledger:
            if ledger.state.applied is not None or ledger.state.intended is not None:
                raise GuardRefused(
                    f"a part of plan {plan_id} is handed over",
                    hint=f"`agents plan unapply {plan_id}` takes it back first",
                )
            await self._reopened(ledger, guidance)
            return ledger.state

    async def _reopened(self, ledger: Ledger, guidance: str) -> None:
        """Let a plan whose work was done go on with it."""
        guided = Guided(guidance_id=self._equipment.clock.new_id(), text=guidance, source="correct")
        if await self._taken_up(ledger):
            await ledger.record(guided)
            return
        require_files(ledger.state)
        await ledger.record(guided, REOPENED)

    async def _taken_up(self, ledger: Ledger) -> bool:
        """Bring a plan whose hand-over was taken back to the end of its work; whether it was one.

        Raises GuardRefused where no checkpoint leads there.
        """
        state = ledger.state
        if not _is_taken_back(state):
            return False
        if not state.checkpoints:
            raise GuardRefused(f"plan {state.plan_id} kept no checkpoint to go on from", hint=ANEW)
        await roll_back(self._equipment, ledger, state.checkpoints[-1], reason="taken back")
        return True

    async def _taken_in(self, plan_id: str) -> PlanState:
        """Journal the words where nobody works on the plan; its owner does it else."""
        try:
            async with self._lifecycle.owned(plan_id) as ledger:
                await heard_late(ledger, Steering(self._equipment, ledger))
                return ledger.state
        except Conflict:
            return await self._state(plan_id)

    async def _say(self, plan_id: str, word: str, *, text: str = "", source: str = "") -> None:
        journal, clock = self._equipment.store.journal, self._equipment.clock
        await control.say(journal, clock, plan_id, word, text=text, source=source)

    async def _state(self, plan_id: str) -> PlanState:
        ledger = await Ledger.open(self._equipment.store, self._equipment.clock, plan_id)
        return ledger.state

    async def _withdrawn(self, plan_id: str) -> None:
        """A plan that is paused is nobody's next job."""
        await self._equipment.queue.withdraw(plan_id)


async def heard_late(ledger: Ledger, steering: Steering) -> None:
    """Take guidance in; work that was done while it was on its way goes on with it."""
    await steering.take_in()
    state = ledger.state
    is_handed = state.applied is not None or state.intended is not None
    if state.steered.guidance and (state.phase, state.state) == DONE and not is_handed:
        require_files(state)
        await ledger.record(REOPENED)


def require_guidance(text: str) -> None:
    """Raise UsageError for guidance that says nothing, or too much."""
    if not text.strip():
        raise UsageError("the guidance is empty", hint="say what is to be done otherwise")
    if len(text) > GUIDANCE_CHARS:
        raise UsageError(
            f"the guidance has {len(text):,} characters, more than {GUIDANCE_CHARS:,}",
            hint="write it into a file of the repository and name that",
        )


def require_listener(state: PlanState) -> None:
    """Raise GuardRefused for a plan whose actor takes no word."""
    if state.known.agent == "recipe":
        raise GuardRefused(
            f"plan {state.plan_id} is carried out by a recipe, which takes no guidance",
            hint="mend the action's steps, or use `--agent model`",
        )


def require_files(state: PlanState) -> None:
    """Raise GuardRefused where neither the workspace is there nor a checkpoint of its files."""
    if state.workspace is None and not state.restoring:
        raise GuardRefused(
            f"the workspace of plan {state.plan_id} was returned, and no checkpoint kept its files",
            hint=ANEW,
        )


def require_unfinished(state: PlanState) -> None:
    """Raise GuardRefused for a plan whose work is done."""
    if state.handed:
        raise GuardRefused(
            f"plan {state.plan_id} is handed over",
            hint=f"`agents plan unapply {state.plan_id}` takes it back first",
        )
    if _is_over(state):
        raise GuardRefused(
            f"plan {state.plan_id} is at {state.phase}/{state.state}: its work is done",
            hint=f"`agents plan correct {state.plan_id} --mode append --guidance TEXT` goes on"
            " with it",
        )


def _is_taken_back(state: PlanState) -> bool:
    """Whether it was handed over, and nothing of that is left."""
    return state.state == State.APPLIED and not state.handed and state.intended is None


def _is_over(state: PlanState) -> bool:
    return state.phase == Phase.APPLY or (state.phase, state.state) == DONE


def _open_question(state: PlanState) -> ApprovalAsked:
    if state.steered.asked is None:
        raise GuardRefused(
            f"plan {state.plan_id} waits for no approval",
            hint=f"`agents plan status {state.plan_id}` says what it waits for",
        )
    return state.steered.asked


__all__ = [
    "Directing",
    "heard_late",
    "require_files",
    "require_guidance",
    "require_listener",
    "require_unfinished",
]
