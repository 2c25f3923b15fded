"""Carries out tool calls: routed, gated, journalled before they are sent, settled exactly once."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.contracts.actor import Answered, Wanted
from patchyard.contracts.environment import OnOutput, Toolbox
from patchyard.contracts.tool import Tool
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment
from patchyard.domain.errors import EnvironmentBroken, UnknownName, UsageError
from patchyard.domain.events import ToolCallRequested, ToolCallSettled
from patchyard.domain.mcp_cures import with_cure
from patchyard.domain.plan import Phase
from patchyard.domain.routing import Route
from patchyard.domain.safety import UNCONFINED
from patchyard.domain.steering import ApprovalUsed
from patchyard.domain.tooling import (
    ASK_ROLE,
    READ_OUTPUT,
    Effect,
    ToolResult,
    output_page,
    result_from_wire,
)
from patchyard.engine.answers import answer_in_time, cancelled
from patchyard.engine.budgeting import require_call
from patchyard.engine.call_results import (
    CANCELLED,
    NOT_ANSWERED,
    refused,
    result_of,
    settled_event,
    unknown_outcome,
)
from patchyard.engine.checkpoints import Checkpoints
from patchyard.engine.consulting import Counsel, consulted
from patchyard.engine.equipment import Equipment
from patchyard.engine.inquiring import Inquiries
from patchyard.engine.ledger import Ledger
from patchyard.engine.lending import Lender
from patchyard.engine.metering import ended_by_limit
from patchyard.engine.places import Places
from patchyard.engine.reaching import Reaching
from patchyard.engine.recovery import Recovery
from patchyard.engine.routes import Routes, walled
from patchyard.engine.rows import body_of
from patchyard.engine.steering import Steering

TAKEN_BACK = "somebody rolled the plan back to before this call; it was not made"


class ToolRunner:
    """All tool calls of one phase go through here (B5)."""

    def __init__(  # noqa: PLR0913 - one collaborator each
        self,
        equipment: Equipment,
        ledger: Ledger,
        places: Places,
        *,
        tools: Mapping[str, Tool],
        phase: Phase,
        on_output: OnOutput | None = None,
        checkpoints: Checkpoints | None = None,
        steering: Steering | None = None,
        reaching: Reaching | None = None,
        inquiries: Inquiries | None = None,
        lender: Lender | None = None,
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._places = places
        self._routes = Routes(ledger, places)
        self._tools = tools
        self._phase = phase
        self._on_output = on_output
        self._checkpoints = checkpoints
        self._steering = steering or Steering(equipment, ledger)
        self._reaching = reaching or Reaching(ledger, places)
        self._inquiries = inquiries
        consult = self._steering.consult
        self._counsel = Counsel(ledger=ledger, consult=consult, lender=lender)
        self._recovery = Recovery(ledger, places, tools=tools, phase=phase, checkpoints=checkpoints)
        self._cause = ""  # why the environment of the present call is gone
        self._settled: list[tuple[Toolbox, str]] = []  # calls whose results the toolbox still holds

    async def run(self, wanted: Wanted, *, turn: int) -> Answered:
        """Carry out one wanted call and return its settled result.

        What the actor did wrong is a result. Raises EnvironmentUnavailable when the routed kind
        cannot start, LimitReached for a call too many.
        """
        require_call(self._ledger.state)
        call_id = self._equipment.clock.new_id()
        admitted = self._admit(call_id, wanted)
        if isinstance(admitted, ToolResult):
            return await self._answer_here(call_id, wanted, admitted, turn=turn)
        tool, op, args = admitted
        if op == READ_OUTPUT:
            result = await self._read_output(call_id, args)
            return await self._answer_here(call_id, wanted, result, turn=turn)
        route = self._routes.of(tool.spec.name)
        if self._is_unguarded_planning(route, tool.spec.effect):
            result = refused(
                call_id,
                "READ_ONLY",
                f"commands are refused while planning on {route.kind}: nothing there keeps them"
                f" from writing. Use the reading tools, or plan with {walled(route.kind)}.",
            )
            return await self._answer_here(call_id, wanted, result, turn=turn)
        walls, has_checkpoints = self._walls(route), self._checkpoints is not None
        permit = await self._steering.permit(
            wanted, tool, walls, turn=turn, has_checkpoints=has_checkpoints
        )
        if permit.code:
            result = refused(call_id, permit.code, permit.message)
            return await self._answer_here(call_id, wanted, result, turn=turn, used=permit.used)
        if op == ASK_ROLE and self._inquiries is not None:
            call = _of_engine(call_id, wanted, turn, f"the {args['role']} answers it")
            result = await self._inquiries.put(call, args, permit.used)
            return self.answered(wanted.ref, wanted.name, result)
        return await self._send(call_id, wanted, (op, args), turn=turn, used=permit.used)

    async def take_back(self, wanted: Wanted, *, turn: int) -> Answered:
        """Answer a call that a rollback took back: it is not made."""
        call_id = self._equipment.clock.new_id()
        result = refused(call_id, "ROLLED_BACK", TAKEN_BACK)
        return await self._answer_here(call_id, wanted, result, turn=turn)

    def _admit(
        self, call_id: str, wanted: Wanted
    ) -> tuple[Tool, str, Mapping[str, Any]] | ToolResult:
        """Return the tool and its operation, or the result that refuses the call."""
        tool = self._tools.get(wanted.name)
        if tool is None:
            error = UnknownName.among("tool", wanted.name, self._tools)
            return refused(call_id, "UNKNOWN_TOOL", _in_one(error))
        if self._phase == Phase.STRATEGIZE and tool.spec.effect == Effect.WRITE:
            return refused(
                call_id,
                "READ_ONLY",
                f"{wanted.name} is refused: planning only reads. Say in the plan what to write.",
            )
        if wanted.arguments is None or wanted.problem:
            return refused(call_id, "VALIDATION_ERROR", wanted.problem or "no arguments")
        try:
            op, args = tool.prepare(wanted.arguments)
        except UsageError as misfit:
            return refused(call_id, "VALIDATION_ERROR", _in_one(misfit))
        return tool, op, args

    def _walls(self, route: Route) -> ExecutionEnvironment:
        return self._ledger.state.known.walls_at(route.site)

    def _is_unguarded_planning(self, route: Route, effect: Effect) -> bool:
        is_unguarded = self._walls(route) in UNCONFINED
        return self._phase == Phase.STRATEGIZE and effect == Effect.RUN and is_unguarded

    async def _send(
        self,
        call_id: str,
        wanted: Wanted,
        operation: tuple[str, Mapping[str, Any]],
        *,
        turn: int,
        used: Sequence[ApprovalUsed] = (),
    ) -> Answered:
        route, handle, toolbox = await self._routes.arrived(wanted.name)
        call = ToolCallRequested(
            call_id=call_id,
            turn=turn,
            ref=wanted.ref,
            name=wanted.name,
            arguments=body_of(wanted.arguments),
            environment_id=handle.environment_id,
            kind=route.kind,
            resource=route.resource,
            server=route.server,
            level=route.level,
            reason=route.reason,
            checkpoint_id=await self._kept(call_id, wanted.name, operation[1]),
        )
        await self._ledger.record(*used, call)
        await self._forget_written()
        payload = await self._sent(call, toolbox, operation)
        if payload is None:
            payload = await self._recovered(call, operation)
        answered = await self._settle(call_id, wanted.ref, wanted.name, payload)
        if self._checkpoints is not None and self._tools[wanted.name].spec.effect != Effect.READ:
            success = answered.result.success
            await self._checkpoints.after(call_id, wanted.name, success=success)
        return answered

    async def end_round(self) -> None:
        """Keep the files as a round of work left them."""
        if self._checkpoints is not None:
            await self._checkpoints.end_round()

    async def _kept(self, call_id: str, name: str, args: Mapping[str, Any]) -> str:
        """Keep the files before a call that may write; return the checkpoint that holds them."""
        if self._checkpoints is None:
            return ""
        effect = self._tools[name].spec.effect
        is_install = args.get("command") in self._ledger.state.known.setup
        return await self._checkpoints.before(call_id, name, effect, is_install=is_install)

    async def _sent(
        self, call: ToolCallRequested, toolbox: Toolbox, operation: tuple[str, Mapping[str, Any]]
    ) -> Mapping[str, Any] | None:
        """Send a call, or attach to it; None where its environment was lost meanwhile."""
        op, args = operation
        try:
            args = await self._reaching.furnished(call.kind, toolbox, op, args)
            waiting = toolbox.call(call.call_id, op, args, on_output=self._on_output)
            payload = await answer_in_time(waiting, args, op=op)
            payload = await consulted(self._counsel, toolbox, call.call_id, args, payload)
        except EnvironmentBroken as error:
            self._cause = error.message
            if call.site is not None:
                await self._places.replace(call.site, error.message)
            return ended_by_limit(error)
        except asyncio.CancelledError:
            async with self._ledger.sole():  # another owner may be waiting for this very call
                await cancelled(toolbox, call.call_id)
            await self._settle(call.call_id, call.ref, call.name, CANCELLED)
            raise
        self._settled.append((toolbox, call.call_id))
        return payload

    async def _recovered(
        self, call: ToolCallRequested, operation: tuple[str, Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """Return what a call comes to whose environment is gone."""
        while (toolbox := await self._recovery.prepared(call, self._cause)) is not None:
            payload = await self._sent(call, toolbox, operation)
            if payload is not None:
                return payload
        return unknown_outcome(self._cause)

    async def _forget_written(self) -> None:
        """Let the toolboxes drop the results that are on disk by now."""
        while self._settled:
            toolbox, call_id = self._settled.pop()
            with contextlib.suppress(EnvironmentBroken):
                await toolbox.forget((call_id,))

    async def settle_left_over(self, event: ToolCallRequested) -> Answered:
        """Settle a call that an earlier life of the engine had sent, by the design's rule."""
        call = self._ledger.state.open_calls.get(event.call_id, event)  # it may have been repeated
        live = self._ledger.state.environments.get(call.environment_id)
        self._cause = "the engine was killed and the environment is gone"
        if self._inquiries is not None and call.call_id in self._ledger.state.inquiries.open:
            return self.answered(call.ref, call.name, await self._inquiries.go_on(call))
        payload: Mapping[str, Any] | None = None
        arguments = await self._ledger.value(call.arguments)
        wanted = Wanted(ref=call.ref, name=call.name, arguments=arguments)
        admitted = self._admit(call.call_id, wanted)  # a tool of others may be another by now
        if call.kind is not None and not isinstance(admitted, ToolResult):
            operation = admitted[1:]
            if live is not None:
                payload = await self._attached(call, live.handle, operation)
            if payload is None:
                payload = await self._recovered(call, operation)
        if payload is None:
            payload = unknown_outcome(self._cause) if call.environment_id else NOT_ANSWERED
        return await self._settle(call.call_id, call.ref, call.name, payload, reattached=True)

    async def _attached(
        self,
        call: ToolCallRequested,
        live: EnvironmentHandle,
        operation: tuple[str, Mapping[str, Any]],
    ) -> Mapping[str, Any] | None:
        """Wait for a call that runs on; None where nothing is known of it any more.

        A toolbox knows all its calls: one that was never sent is sent now.
        """
        handle, toolbox = await self._places.toolbox(live.site)
        if handle.environment_id != call.environment_id:
            return None
        return await self._sent(call, toolbox, operation)

    async def _answer_here(
        self,
        call_id: str,
        wanted: Wanted,
        result: ToolResult,
        *,
        turn: int,
        used: Sequence[ApprovalUsed] = (),
    ) -> Answered:
        await self._ledger.record(
            *used, _of_engine(call_id, wanted, turn, "answered by the engine itself")
        )
        told = {"success": result.success, "message": result.message, "error": result.error}
        return await self._settle(call_id, wanted.ref, wanted.name, {**result.data, **told})

    async def _settle(
        self,
        call_id: str,
        ref: str,
        name: str,
        payload: Mapping[str, Any],
        *,
        reattached: bool = False,
    ) -> Answered:
        result = with_cure(name, result_from_wire(call_id, payload))
        settled = settled_event(result, is_reattached=reattached)
        self._ledger.note(*self._reaching.used(call_id), settled)
        return self.answered(ref, name, result)

    def answered(self, ref: str, name: str, result: ToolResult) -> Answered:
        """Return a settled result as the actor gets it."""
        tool = self._tools.get(name)
        text = tool.render(result) if tool else f"error: {result.message}"
        images = tool.images(result) if tool else ()
        return Answered(ref=ref, name=name, result=result, text=text, images=images)

    async def _read_output(self, call_id: str, args: Mapping[str, Any]) -> ToolResult:
        wanted = str(args.get("call_id", ""))
        found = await self._journalled(wanted)
        tool = self._tools.get(found[0]) if found else None
        if found is None or tool is None:
            return refused(call_id, "UNKNOWN_CALL", f"there is no call {wanted!r} in this plan")
        page = output_page(tool.full(found[1]), offset=int(args.get("offset", 0)))
        return result_from_wire(call_id, page)

    async def _journalled(self, call_id: str) -> tuple[str, ToolResult] | None:
        name = ""
        for _, _, event in await self._ledger.events():
            if isinstance(event, ToolCallRequested) and event.call_id == call_id:
                name = event.name
            if isinstance(event, ToolCallSettled) and event.call_id == call_id:
                return name, result_of(event, await self._ledger.value(event.data))
        return None


def _of_engine(call_id: str, wanted: Wanted, turn: int, reason: str) -> ToolCallRequested:
    """Return the event of a call that no environment carries out."""
    return ToolCallRequested(
        call_id=call_id,
        turn=turn,
        ref=wanted.ref,
        name=wanted.name,
        arguments=body_of(wanted.arguments or {}),
        environment_id="",
        level="engine",
        reason=reason,
    )


def _in_one(error: UsageError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


__all__ = ["TAKEN_BACK", "ToolRunner"]
