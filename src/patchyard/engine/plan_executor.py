"""Connects the life of a plan with its actors, for strategize and for execute (B2)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from patchyard.contracts.actor import Brief, Casting, Session, Turn
from patchyard.contracts.tool import Tool
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.changeset import Base
from patchyard.domain.codec import from_json, to_json
from patchyard.domain.decision import Decision, DecisionKind, Proposal
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment
from patchyard.domain.errors import LimitReached, WorkFailed
from patchyard.domain.events import (
    BaseRecorded,
    DecisionRecorded,
    Moved,
    StrategyRecorded,
    WorkspaceCreated,
    WorkSummarised,
)
from patchyard.domain.invariant import reconcile
from patchyard.domain.plan import Phase, State
from patchyard.domain.tooling import Effect
from patchyard.engine import invariants
from patchyard.engine.agent_loop import AgentLoop
from patchyard.engine.answers import whole
from patchyard.engine.capture import Capture
from patchyard.engine.equipment import Equipment
from patchyard.engine.grounds import ground_name
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import begin, require_strategy, settling
from patchyard.engine.places import Places
from patchyard.engine.proof import Prover
from patchyard.engine.setup import Setup
from patchyard.engine.sites import general_kind, specs_for
from patchyard.engine.tool_runner import ToolRunner
from patchyard.engine.watching import Watching

Place = Callable[[], Awaitable[WorkspaceRef]]

_EXECUTED = (Phase.EXECUTE, State.COMPLETE)


class PlanExecutor:
    """Carries one owned plan through its two working phases."""

    def __init__(
        self, equipment: Equipment, ledger: Ledger, *, watching: Watching | None = None
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._watching = watching or Watching()

    async def strategize(self) -> None:
        """Think without writing: base, root decision, invariants, strategy (B3, B9 to B11).

        Idempotent once complete. Raises what ended the phase; the plan says so too.
        """
        state = self._ledger.state
        if state.phase != Phase.STRATEGIZE or state.state == State.COMPLETE:
            return
        is_taken_up = await begin(self._ledger, Phase.STRATEGIZE)
        async with settling(self._ledger, Phase.STRATEGIZE), self._bounded():
            base = await self._base()
            root_id = await self._root()
            async with (
                self._reading_place(base) as place,
                self._working(Phase.STRATEGIZE, place) as (loop, _),
            ):
                turn = await self._last_turn(loop, is_taken_up=is_taken_up)
            await self._conclude(turn, root_id)

    async def execute(self) -> None:
        """Do the work in the sandbox, capture it and prove it (B4 to B8).

        Idempotent once complete. A proof that fails goes back to the actor for `rounds` rounds;
        then the plan is constrained.
        """
        state = self._ledger.state
        require_strategy(state)
        if state.phase == Phase.APPLY or (state.phase, state.state) == _EXECUTED:
            return
        is_taken_up = await begin(self._ledger, Phase.EXECUTE)
        async with settling(self._ledger, Phase.EXECUTE):
            try:
                async with self._bounded():
                    await self._work(is_taken_up=is_taken_up)
            except LimitReached:
                await self._keep()
                raise
            await self._ledger.record(Moved(phase=Phase.EXECUTE, state=State.COMPLETE))

    async def _work(self, *, is_taken_up: bool) -> None:
        base = await self._base()
        layers = await Setup(self._equipment, self._ledger).layers(base)
        prover = Prover(self._equipment, self._ledger, layers)
        if not is_taken_up:
            held = await invariants.check(self._ledger, prover, base, tree=None, when="before")
            invariants.require_held(held)
        async with (
            self._writable_place(base, layers) as workspace,
            self._working(Phase.EXECUTE, _given(workspace)) as (loop, places),
        ):
            capture = Capture(self._equipment, self._ledger, prover, workspace)
            turn = await self._last_turn(loop, is_taken_up=is_taken_up)
            while (complaint := await self._proven(turn, places, capture)) is not None:
                turn = await loop.run(note=complaint)

    async def _keep(self) -> None:
        """Capture what a plan has when a limit stops it: unproven, for `plan diff`."""
        state = self._ledger.state
        if state.base is None or state.workspace is None:
            return
        async with self._writable_place(state.base, ()) as workspace:
            prover = Prover(self._equipment, self._ledger, ())
            await Capture(self._equipment, self._ledger, prover, workspace).keep()

    async def _proven(self, turn: Turn, places: Places, capture: Capture) -> str | None:
        """End a round of work: what the actor left running ends before anything is looked at."""
        if turn.failure:
            raise _unable(turn)
        await self._ledger.record(WorkSummarised(summary=turn.summary[:4000]))
        await places.end()
        return await capture.prove()

    async def _last_turn(self, loop: AgentLoop, *, is_taken_up: bool) -> Turn:
        """Return the final turn, the one of an earlier life when that settled the matter."""
        turn = await loop.take_up() if is_taken_up else None
        if turn is not None and not turn.can_go_on:
            return turn
        asked = self._ledger.state.asked
        return await loop.run(note=asked.note if asked is not None else "")

    @asynccontextmanager
    async def _working(self, phase: Phase, place: Place) -> AsyncIterator[tuple[AgentLoop, Places]]:
        """Open the actor's session and its environments; both end with the block."""
        spec = self._ledger.state.known

        async def specs() -> Mapping[ExecutionEnvironment, EnvironmentSpec]:
            return specs_for(
                self._equipment,
                self._ledger.plan_id,
                spec,
                await place(),
                purpose=str(phase),
                is_writable=phase == Phase.EXECUTE,
            )

        places = Places(self._equipment, self._ledger, specs, str(phase))
        await places.find_again()
        path = spec.repository
        if general_kind(spec) == ExecutionEnvironment.HOST:
            path = (await place()).root
        tools = self._equipment.tools(path)
        runner = ToolRunner(
            self._equipment,
            self._ledger,
            places,
            tools=tools,
            phase=phase,
            on_output=self._watching.on_output,
        )
        session = await self._session(phase, path, tools)
        try:
            yield AgentLoop(self._ledger, session, runner), places
        finally:
            await session.close()
            await places.end()

    async def _session(
        self, phase: Phase, workspace_path: str, tools: Mapping[str, Tool]
    ) -> Session:
        state = self._ledger.state
        spec = state.known
        specs = [tool.spec for tool in tools.values()]
        if phase == Phase.STRATEGIZE:
            specs = [spec_ for spec_ in specs if spec_.effect != Effect.WRITE]
        brief = Brief(
            plan_id=state.plan_id,
            phase=str(phase),
            task=spec.task,
            workspace_path=workspace_path,
            environment=str(general_kind(spec)),
            tools=tuple(specs),
            definition_of_done=spec.definition_of_done,
            invariants=tuple(i.text for i in reconcile(spec.invariants).effective),
            validation=spec.validate,
            strategy=state.strategy if phase == Phase.EXECUTE else "",
            steps=spec.steps,
            arguments=spec.arguments,
        )
        casting = Casting(
            plan_id=state.plan_id,
            spec=spec,
            phase=str(phase),
            on_text=self._watching.on_text,
            on_wait=self._watching.on_wait,
        )
        actor = await self._equipment.actor(casting)
        return await actor.begin(brief)

    async def _base(self) -> Base:
        state = self._ledger.state
        if state.base is None:
            spec = state.known
            base = await self._equipment.trees.snapshot(Path(spec.repository), ref=spec.ref)
            await self._ledger.record(BaseRecorded(base=base))
            return base
        return state.base

    @asynccontextmanager
    async def _reading_place(self, base: Base) -> AsyncIterator[Place]:
        """A tree for planning, made when the first call needs it, gone with the phase."""
        made: list[WorkspaceRef] = []

        workspaces = self._equipment.workspaces
        name = ground_name(self._ledger.plan_id, "plan")

        async def place() -> WorkspaceRef:
            if not made:
                folders = self._ledger.state.known.include
                made.append(
                    await whole(workspaces.create(base, workspace_id=name, folders=folders))
                )
            return made[0]

        try:
            yield place
        finally:
            await workspaces.discard(name)  # an earlier life may have made it

    @asynccontextmanager
    async def _writable_place(
        self, base: Base, layers: Sequence[Path]
    ) -> AsyncIterator[WorkspaceRef]:
        """Mount the plan's own tree, made now or in an earlier life; it is kept afterwards."""
        known = self._ledger.state.workspace
        workspaces = self._equipment.workspaces
        if known is not None:
            workspace = from_json(WorkspaceRef, known)
            await whole(workspaces.open(workspace), undo=lambda _: workspaces.close(workspace))
        else:
            creating = workspaces.create(
                base,
                workspace_id=self._ledger.plan_id,
                layers=layers,
                folders=self._ledger.state.known.include,
            )
            workspace = await whole(creating, undo=workspaces.remove)
            await self._ledger.record(WorkspaceCreated(workspace=to_json(workspace)))
        try:
            yield workspace
        finally:
            await workspaces.close(workspace)

    async def _root(self) -> str:
        """Return the root decision of this attempt; recorded once, however often it is begun."""
        state = self._ledger.state
        for version, _, event in await self._ledger.events() if state.decisions else ():
            if version <= state.attempt_starts or not isinstance(event, DecisionRecorded):
                continue
            if event.decision.parent_id is None:
                return event.decision.decision_id
        root = Decision(
            decision_id=self._equipment.clock.new_id(),
            parent_id=None,
            kind=DecisionKind.PROMPT_DEFINITION,
            question="what is asked for?",
            choice=state.known.task[:4000],
            rationale=f"action {state.known.action}" if state.known.action else "the task as given",
        )
        await self._ledger.record(DecisionRecorded(decision=root))
        await invariants.enforce(self._ledger, self._equipment.clock, root.decision_id)
        return root.decision_id

    async def _conclude(self, turn: Turn, root_id: str) -> None:
        if turn.failure:
            raise _unable(turn)
        summary = turn.summary or turn.text
        for proposal in turn.proposals or (_default_choice(summary),):
            decision = _placed(proposal, self._equipment.clock.new_id(), root_id)
            await self._ledger.record(DecisionRecorded(decision=decision))
        await self._ledger.record(
            StrategyRecorded(summary=summary[:8000], decision_root_id=root_id),
            Moved(phase=Phase.STRATEGIZE, state=State.COMPLETE),
        )

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        """End the phase when the plan's time is used up."""
        state = self._ledger.state
        seconds = state.limits.seconds
        left = None if seconds is None else max(0.0, seconds - state.spent.seconds)
        try:
            async with asyncio.timeout(left) as scope:
                yield
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise LimitReached(
                f"the time limit of {seconds:g} s is reached",
                hint="`agents plan limit --timeout +1h` raises it, `agents plan resume` goes on",
            ) from error


def _given(workspace: WorkspaceRef) -> Place:
    async def place() -> WorkspaceRef:
        return workspace

    return place


def _unable(turn: Turn) -> WorkFailed:
    again = "`agents plan resume` asks it on; `agents run --model M` begins anew with another model"
    details = {"text": turn.text[:2000]}
    return WorkFailed(turn.failure, hint=again if turn.can_go_on else "", details=details)


def _default_choice(summary: str) -> Proposal:
    return Proposal(
        kind=DecisionKind.STRATEGY_CHOICE, question="how is it done?", choice=summary[:4000]
    )


def _placed(proposal: Proposal, decision_id: str, parent_id: str) -> Decision:
    return Decision(
        decision_id=decision_id,
        parent_id=parent_id,
        kind=proposal.kind,
        question=proposal.question,
        choice=proposal.choice,
        alternatives=proposal.alternatives,
        confidence=proposal.confidence,
        rationale=proposal.rationale,
    )


__all__ = ["PlanExecutor"]
