"""Questions that an actor puts to other roles: each is answered in a plan of its own, read-only.

The answer is the result of the call. Killed in between, the same plan goes on: a call has one.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from patchyard.contracts.tool import Tool
from patchyard.domain.changeset import Base
from patchyard.domain.errors import (
    ApprovalNeeded,
    Conflict,
    JournalBroken,
    LimitReached,
    PatchyardError,
    PlanPaused,
    WorkFailed,
)
from patchyard.domain.events import Noted, ToolCallRequested
from patchyard.domain.inquiries import SHOWN_CHARS, RoleAnswered, RoleAsked
from patchyard.domain.limit_settings import rounds_within, within
from patchyard.domain.lineage import Kinship, Lineage
from patchyard.domain.plan import AUTO, Phase, PlanSpec
from patchyard.domain.role import Output, Role
from patchyard.domain.state import PlanState
from patchyard.domain.steering import ApprovalUsed
from patchyard.domain.tooling import ASK_ROLE, ToolResult
from patchyard.engine.call_results import refused, settled_event
from patchyard.engine.colleagues import Carry, count_so_far, is_made, limits_left
from patchyard.engine.equipment import Equipment
from patchyard.engine.following import Elder
from patchyard.engine.grounds import Ground
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.steering import Steering

QUESTION_CHARS = 20_000
FAILED = "ROLE_FAILED"
NO_MORE = "ASKED_ENOUGH"
LIMITED = "LIMIT_REACHED"
# What ends the asking plan's own work for now; the question is taken up with it again.
PASSED_ON = (ApprovalNeeded, Conflict, JournalBroken, PlanPaused)
TASK = (
    "A colleague ({role}) asks you something while at work on a task in this repository. Answer"
    " the question from what you find here; nothing else is wanted of you now, whatever your role"
    " is otherwise for. {about}\n\n## The question\n\n{question}\n\n## The colleague's task\n\n"
    "{task}"
)


class Inquiries:
    """The questions of one plan, put while its actor works on `ground`."""

    def __init__(
        self,
        equipment: Equipment,
        ledger: Ledger,
        steering: Steering,
        ground: Ground,
        *,
        carry: Carry,
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._steering = steering
        self._ground = ground
        self._carry = carry

    def offered(self) -> Mapping[str, Tool]:
        """Return the tool by its name; nothing for an actor who may ask nobody."""
        roles = self._ledger.state.known.askable
        return {ASK_ROLE: self._equipment.inquiry(roles)} if roles else {}

    def _refusal(self, call_id: str, args: Mapping[str, Any]) -> ToolResult | None:
        """Return the result that refuses a question, None where it can be put."""
        state = self._ledger.state
        most, length = state.known.charter.max_asks, len(str(args["question"]))
        if length > QUESTION_CHARS:
            said = f"the question has {length:,} characters, at most {QUESTION_CHARS:,}"
            return refused(call_id, "VALIDATION_ERROR", said)
        if len(state.inquiries.asked) >= most:
            said = f"{most} questions were put in this plan, which is the most; decide yourself"
            return refused(call_id, NO_MORE, said)
        return None

    async def put(
        self, call: ToolCallRequested, args: Mapping[str, Any], used: Sequence[ApprovalUsed]
    ) -> ToolResult:
        """Put a question, and return its settled result. What the other one cannot is a result.

        Raises what ends the work of the asking plan itself.
        """
        refusal = self._refusal(call.call_id, args)
        if refusal is not None:
            await self._ledger.record(*used, call, settled_event(refusal))
            return refusal
        tree, changes = await self._seen()
        asked = RoleAsked(
            call_id=call.call_id,
            role=str(args["role"]),
            colleague_id=self._equipment.clock.new_id(),
            tree=tree,
            changes=changes,
            question=str(args["question"])[:SHOWN_CHARS],
        )
        await self._ledger.record(*used, call, asked)
        return await self._answer(asked, str(args["question"]))

    async def go_on(self, call: ToolCallRequested) -> ToolResult:
        """Return the settled result of a question that an earlier life of the engine had put."""
        arguments = await self._ledger.value(call.arguments)
        asked = self._ledger.state.inquiries.open[call.call_id]
        return await self._answer(asked, str(arguments["question"]))

    async def _seen(self) -> tuple[str, int]:
        """Return the tree that the asked role looks at: the work as it is now, as far as it is."""
        state, base = self._ledger.state, self._base()
        if state.phase != Phase.EXECUTE or not state.known.charter.is_writing:
            return base.tree, 0
        try:
            capture = self._equipment.workspaces.capture
            captured = await capture(base, await self._ground(), windows=())
        except (WorkFailed, OSError) as error:  # something was being written meanwhile
            self._ledger.note(Noted(text=f"the work cannot be shown as it is now: {error}"))
            return base.tree, 0
        return captured.tree, len(captured.changes)

    async def _answer(self, asked: RoleAsked, question: str) -> ToolResult:
        try:
            await self._made(asked, question)
            await self._carry(asked.colleague_id, self._elder(asked))
        except (asyncio.CancelledError, *PASSED_ON):
            with suppress(PatchyardError):  # what ended it is the reason, whatever else fails
                await count_so_far(self._equipment, self._ledger, asked.colleague_id)
            raise
        except PatchyardError as error:
            code = LIMITED if isinstance(error, LimitReached) else FAILED
            said = f"the {asked.role} gave no answer (plan {asked.colleague_id}): {error.message}"
            return await self._settled(asked, refused(asked.call_id, code, said))
        store, clock = self._equipment.store, self._equipment.clock
        own = await Ledger.open(store, clock, asked.colleague_id)
        if own.state.answer is None:
            raise JournalBroken(f"plan {asked.colleague_id} was to answer, and holds no answer")
        result = ToolResult(
            call_id=asked.call_id,
            success=True,
            message=f"the {asked.role} answers in plan {asked.colleague_id}",
            data={
                "answer": await own.value(own.state.answer.body),
                "role": asked.role,
                "plan_id": asked.colleague_id,
                "about": _about(asked, self._base()),
            },
        )
        return await self._settled(asked, result)

    def _elder(self, asked: RoleAsked) -> Elder:
        """Return this plan as the asked role knows it."""
        return Elder(
            ledger=self._ledger,
            steering=self._steering,
            left=lambda: limits_left(self._ledger.state, but=asked.colleague_id),
        )

    async def _settled(self, asked: RoleAsked, result: ToolResult) -> ToolResult:
        """Settle the call and count what the answer cost, in one step."""
        answered = await answered_by(self._equipment, asked, error=result.error or "")
        await self._ledger.record(answered, settled_event(result))
        return result

    async def _made(self, asked: RoleAsked, question: str) -> None:
        """Make the other role's plan, unless an earlier life of the engine did."""
        if await is_made(self._equipment, asked.colleague_id):
            return
        spec, base = self._ledger.state.known, self._base()
        role = next(each for each in spec.askable if each.name == asked.role)
        seen = replace(base, tree=asked.tree, uncommitted=asked.changes or base.uncommitted)
        text = TASK.format(
            role=spec.role, about=_shown(asked, base), question=question, task=spec.task
        )
        await PlanLifecycleService(self._equipment).create(
            _spec_of(self._ledger.state, role, text, base), base=seen, plan_id=asked.colleague_id
        )

    def _base(self) -> Base:
        base = self._ledger.state.base
        if base is None:
            raise JournalBroken("the plan has no base although its actor is at work")
        return base


def _about(asked: RoleAsked, base: Base) -> str:
    if asked.tree == base.tree:
        return "the repository as it was before the work"
    files = "changed file" if asked.changes == 1 else "changed files"
    return f"the work as it was then ({asked.changes} {files})"


def _shown(asked: RoleAsked, base: Base) -> str:
    if asked.tree == base.tree:
        return "You see the repository as it was before that work began."
    return "You see the repository with that work as far as it is; it is not finished."


def _spec_of(state: PlanState, role: Role, text: str, base: Base) -> PlanSpec:
    """Return what the other role is asked: behind the same walls, with what is left of limits.

    Its answer is words: nothing is proven, nobody is asked on.
    """
    spec = state.known
    return replace(
        spec,
        is_role_given=True,
        adjustable=(),
        task=text,
        role=role.name,
        charter=replace(role, output=Output.ANSWER),
        askable=(),
        team=(),
        subject=base.tree,
        action=None,
        steps=(),
        invariants=(),
        lineage=Lineage(plan_id=state.plan_id, kinship=Kinship.COLLEAGUE),
        limits=within(limits_left(state), role.limits),
        rounds=rounds_within(spec.rounds, role.limits),
        apply_to="none",
        requires_changes=False,
        automation_profile=AUTO,  # the call itself was allowed; what it does is reading
        approvals=tuple(name for name in spec.approvals if name not in set(Phase)),
        safety=replace(spec.safety, require_human_approval=False),
        record_to=None,
    )


async def answered_by(equipment: Equipment, asked: RoleAsked, *, error: str) -> RoleAnswered:
    """Return the event that ends a question, with all that its plan has used."""
    answered = RoleAnswered(
        call_id=asked.call_id, role=asked.role, colleague_id=asked.colleague_id, error=error
    )
    if not await is_made(equipment, asked.colleague_id):
        return answered
    ledger = await Ledger.open(equipment.store, equipment.clock, asked.colleague_id)
    spent = ledger.state.spent
    return replace(
        answered,
        usd=spent.usd,
        is_priced=spent.is_priced,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        steps=spent.steps,
        calls=ledger.state.tool_calls,
    )


__all__ = [
    "FAILED",
    "LIMITED",
    "NO_MORE",
    "PASSED_ON",
    "QUESTION_CHARS",
    "TASK",
    "Inquiries",
    "answered_by",
]
