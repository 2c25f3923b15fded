"""Further roles of a plan: each looks at the proven work in a plan of its own, one after the other.

A tester's tests are taken over into the work and proven with it; a reviewer who asks for changes
sends it back. What they came to is heard once, whatever is killed in between.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from patchyard.contracts.actor import Wanted
from patchyard.domain.budget import PlanLimits
from patchyard.domain.changeset import Base, Change, ChangeSet
from patchyard.domain.colleagues import ColleagueAsked, ColleagueCounted, ColleagueHeard
from patchyard.domain.errors import JournalBroken, PatchyardError, ProofFailed, WorkFailed
from patchyard.domain.gate_settings import with_own
from patchyard.domain.limit_settings import rounds_within, within
from patchyard.domain.lineage import Kinship, Lineage
from patchyard.domain.meanings import restored
from patchyard.domain.plan import AUTO, Phase, PlanSpec
from patchyard.domain.review import Review, Verdict
from patchyard.domain.role import Output, Role
from patchyard.domain.state import PlanState
from patchyard.engine.capture import rounds_of
from patchyard.engine.captured import known_changeset
from patchyard.engine.equipment import Equipment
from patchyard.engine.following import Elder
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.steering import Steering
from patchyard.engine.taking_over import calls_for

Carry = Callable[[str, Elder], Awaitable[PlanState]]  # a plan to its end, for another one
Put = Callable[[Wanted], Awaitable[str]]  # makes a call in the work; what is wrong, or nothing
Settle = Callable[[], Awaitable[str | None]]  # captures and proves the work again

UNABLE = "unable"  # the verdict of a tester who says that the work itself is wrong
TASKS = {
    Output.TESTS: "Add tests for the change that was made for this task:\n\n{task}",
    Output.FINDINGS: "Review the change that was made for this task:\n\n{task}",
}


class ColleagueRounds:
    """The further roles of one plan. A way to prove a round of work, after the gates."""

    def __init__(
        self,
        equipment: Equipment,
        ledger: Ledger,
        steering: Steering,
        *,
        carry: Carry,
        put: Put,
        settle: Settle,
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._steering = steering
        self._carry = carry
        self._put = put
        self._settle = settle

    async def prove(self) -> str | None:
        """Let each role look; return what sends the work back, None when all are content.

        Raises ProofFailed when no round is left, and whatever ends a colleague's plan.
        """
        for role in self._ledger.state.known.team:
            complaint = await self._tested(role) if role.is_writing else await self._judged(role)
            if complaint is not None:
                return complaint
        return None

    async def _tested(self, role: Role) -> str | None:
        """Take a tester's tests over, once a plan, and prove the work with them."""
        last = self._ledger.state.colleagues.last(role.name)
        if last is not None and last.verdict != UNABLE:
            return None
        asked = await self._asked(role)
        try:
            state, ledger = await self._carried(asked)
        except WorkFailed as failure:
            if type(failure) is not WorkFailed:  # it was not its own word
                raise
            return await self._unable(role, asked, failure)
        changes = (await known_changeset(ledger)).changes
        for number, change in enumerate(changes):
            await self._take_over(role, state, change, number)
        await self._hear(asked, state, added=tuple(change.path for change in changes))
        return await self._settle()

    async def _unable(self, role: Role, asked: ColleagueAsked, failure: WorkFailed) -> str:
        """Take in that a tester finds the work itself wrong; that goes back to who did it."""
        ledger = await self._ledger_of(asked)
        await self._hear(asked, ledger.state, verdict=UNABLE)
        if self._ledger.state.rounds >= rounds_of(self._ledger.state.known):
            raise ProofFailed(f"the {role.name} cannot test the work: {failure.message}")
        return f"The {role.name} cannot test your work: {failure.message}\n\nMend it, then finish."

    async def _judged(self, role: Role) -> str | None:
        """Let a reviewer judge the result as it is now; nothing is judged twice."""
        result = await known_changeset(self._ledger)
        last = self._ledger.state.colleagues.last(role.name)
        if last is not None and last.changeset_id == result.id and last.verdict == Verdict.APPROVE:
            return None
        asked = await self._asked(role)
        state, ledger = await self._carried(asked)
        if state.review is None:
            raise JournalBroken(f"plan {asked.colleague_id} was to review, and holds no review")
        review = restored(Review, await ledger.value(state.review.body))
        await self._hear(asked, state, verdict=review.verdict)
        if review.verdict == Verdict.APPROVE:
            return None
        rows = [f"- {f.path}:{f.line} {f.severity}: {f.message}" for f in review.findings]
        said = f"The {role.name} asks for changes: {review.summary}\n\n" + "\n".join(rows)
        if self._ledger.state.rounds >= rounds_of(self._ledger.state.known):
            raise ProofFailed(
                f"the {role.name} still asks for changes: {rows[0].removeprefix('- ')}",
                hint=f"`agents plan status {asked.colleague_id}` shows the whole review",
                details={"output": said[:2000], "limit_name": "rounds"},
            )
        return f"{said}\n\nMend that, then finish again."

    async def _asked(self, role: Role) -> ColleagueAsked:
        """Return the role's plan for the present result, made where there is none yet."""
        result, state = await known_changeset(self._ledger), self._ledger.state
        open_ = state.colleagues.asked
        # What a tester added may be in the result already: a killed engine comes here again.
        fits = open_ is not None and (role.is_writing or open_.changeset_id == result.id)
        if open_ is None or not fits or open_.role != role.name:
            if open_ is not None:  # a killed engine may have left it
                await count_so_far(self._equipment, self._ledger, open_.colleague_id)
            new_id = self._equipment.clock.new_id()  # known before there is such a plan: one only
            open_ = ColleagueAsked(role=role.name, colleague_id=new_id, changeset_id=result.id)
            await self._ledger.record(open_)
        await self._made(open_, role, result)
        return open_

    async def _made(self, asked: ColleagueAsked, role: Role, result: ChangeSet) -> None:
        """Make the role's plan, unless an earlier life of the engine did."""
        if await is_made(self._equipment, asked.colleague_id):
            return
        state = self._ledger.state
        if state.base is None:
            raise JournalBroken("the plan has no base although it was executed")
        base = replace(state.base, tree=result.tree, uncommitted=len(result.changes))
        await PlanLifecycleService(self._equipment).create(
            _spec_of(state, role, state.base), base=base, plan_id=asked.colleague_id
        )

    async def _carried(self, asked: ColleagueAsked) -> tuple[PlanState, Ledger]:
        """Let a colleague do its part. What one used that is stopped counts from then on."""
        elder = Elder(
            ledger=self._ledger,
            steering=self._steering,
            left=lambda: limits_left(self._ledger.state, but=asked.colleague_id),
        )
        try:
            await self._carry(asked.colleague_id, elder)
        except (PatchyardError, asyncio.CancelledError):
            with suppress(PatchyardError):  # what ended it is the reason, whatever else fails
                await count_so_far(self._equipment, self._ledger, asked.colleague_id)
            raise
        ledger = await self._ledger_of(asked)
        return ledger.state, ledger

    async def _ledger_of(self, asked: ColleagueAsked) -> Ledger:
        store, clock = self._equipment.store, self._equipment.clock
        return await Ledger.open(store, clock, asked.colleague_id)

    async def _take_over(self, role: Role, state: PlanState, change: Change, number: int) -> None:
        """Bring one file of a colleague into the work, by calls as the actor makes them."""
        content = None
        if change.blob is not None and state.base is not None:
            content = await self._equipment.trees.blob(state.base, change.blob)
        for wanted in calls_for(change, content, ref=f"{role.name}-{number}"):
            if problem := await self._put(wanted):
                raise WorkFailed(
                    f"{change.path} of the {role.name} cannot be taken over: {problem}"
                )

    async def _hear(
        self,
        asked: ColleagueAsked,
        state: PlanState,
        *,
        verdict: str = "",
        added: tuple[str, ...] = (),
    ) -> None:
        spent = state.spent
        await self._ledger.record(
            ColleagueHeard(
                role=asked.role,
                colleague_id=asked.colleague_id,
                changeset_id=asked.changeset_id,
                verdict=verdict,
                added=added,
                usd=spent.usd,
                is_priced=spent.is_priced,
                input_tokens=spent.input_tokens,
                output_tokens=spent.output_tokens,
                steps=spent.steps,
                calls=state.tool_calls,
            )
        )


def _spec_of(state: PlanState, role: Role, base: Base) -> PlanSpec:
    """Return what a colleague is asked for: same walls and gates, what is left of the limits."""
    spec = state.known
    return replace(
        spec,
        is_role_given=True,
        adjustable=(),
        task=TASKS[role.output].format(task=spec.task),
        role=role.name,
        charter=role,
        team=(),
        askable=(),
        subject=base.tree,
        action=None,
        steps=(),
        lineage=Lineage(plan_id=state.plan_id, kinship=Kinship.COLLEAGUE),
        gates=with_own(spec.gates, role.gates),
        limits=within(limits_left(state), role.limits),
        rounds=rounds_within(spec.rounds, role.limits),
        apply_to="none",
        requires_changes=False,
        automation_profile=AUTO,  # who approved this plan's work approved that it is looked at
        approvals=tuple(name for name in spec.approvals if name not in set(Phase)),
        safety=replace(spec.safety, require_human_approval=False),
        record_to=None,
    )


async def is_made(equipment: Equipment, plan_id: str) -> bool:
    """Whether a plan whose id is fixed is there already."""
    return bool(await equipment.store.journal.read(plan_id))


async def count_so_far(equipment: Equipment, ledger: Ledger, colleague_id: str) -> None:
    """Count what a plan that works for this one has used, though it is not heard yet."""
    if not await is_made(equipment, colleague_id):
        return
    own = (await Ledger.open(equipment.store, equipment.clock, colleague_id)).state
    spent = own.spent
    so_far = ColleagueCounted(
        colleague_id=colleague_id,
        usd=spent.usd,
        is_priced=spent.is_priced,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        steps=spent.steps,
        calls=own.tool_calls,
    )
    if ledger.state.colleagues.counted.get(colleague_id) != so_far:
        await ledger.record(so_far)


def limits_left(state: PlanState, *, but: str = "") -> PlanLimits:
    """Return what is left of a plan's limits, for another plan that works for it.

    What plan `but` used is its own to count.
    """
    limits, spent, calls = state.limits, state.spent, state.tool_calls + state.colleagues.calls
    own = state.colleagues.counted.get(but)
    if own is not None:
        calls -= own.calls
        spent = replace(
            spent,
            usd=spent.usd - own.usd,
            input_tokens=spent.input_tokens - own.input_tokens,
            output_tokens=spent.output_tokens - own.output_tokens,
            steps=spent.steps - own.steps,
        )
    tokens = limits.ceiling(is_priced=spent.is_priced).tokens
    return replace(
        limits,
        calls=None if limits.calls is None else max(0, limits.calls - calls),
        usd=None if limits.usd is None else max(0.0, limits.usd - spent.usd),
        tokens=None if tokens is None else max(0, tokens - spent.tokens),
        steps=None if limits.steps is None else max(0, limits.steps - spent.steps),
        seconds=None if limits.seconds is None else max(1.0, limits.seconds - spent.seconds),
    )


__all__ = [
    "TASKS",
    "UNABLE",
    "Carry",
    "ColleagueRounds",
    "Put",
    "Settle",
    "count_so_far",
    "is_made",
    "limits_left",
]
