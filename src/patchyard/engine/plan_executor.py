"""Connects the life of a plan with its actors, for strategize and for execute (B2)."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from patchyard.contracts.actor import Turn
from patchyard.contracts.subjects import Subject
from patchyard.domain.changeset import Base
from patchyard.domain.errors import LimitReached, PatchyardError
from patchyard.domain.events import (
    BaseRecorded,
    Moved,
    Noted,
    WorkSummarised,
)
from patchyard.domain.plan import Phase, State
from patchyard.domain.role import Output
from patchyard.domain.state import PlanState
from patchyard.domain.steps import Step
from patchyard.engine import invariants
from patchyard.engine.agent_loop import AgentLoop
from patchyard.engine.analysing import analyse
from patchyard.engine.capture import Capture
from patchyard.engine.colleagues import Carry, ColleagueRounds
from patchyard.engine.concluding import conclude, root_decision, unable
from patchyard.engine.covering import covered
from patchyard.engine.equipment import Equipment
from patchyard.engine.foreseeing import require_places
from patchyard.engine.grounds import Ground, given, reading_ground, working_ground
from patchyard.engine.inquiring import Inquiries
from patchyard.engine.judging import Judging, shown_subject
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import (
    begin,
    has_steps,
    require_strategy,
    require_walls,
    settling,
)
from patchyard.engine.persisting import persisting, place_recovers
from patchyard.engine.places import Places
from patchyard.engine.proof import Prover
from patchyard.engine.removal_proof import removal_proof
from patchyard.engine.restarts import after_restart, distrusting
from patchyard.engine.reverting import freshened
from patchyard.engine.sessions import at_work
from patchyard.engine.setup import Setup
from patchyard.engine.sites import general_site
from patchyard.engine.steering import Steering
from patchyard.engine.stepping import step, tidied
from patchyard.engine.timekeeping import Deadline
from patchyard.engine.watching import Watching
from patchyard.engine.wishing import prepared

KEEPING_S = 60.0  # for a capture of what a limit stopped; 100,000 new files take about 40
NOT_CAPTURED = "it could not be captured"
LOOKS = "look, and answer"  # the strategy of a question: nobody needs to think of it
_EXECUTED = (Phase.EXECUTE, State.COMPLETE)


class Proving(Protocol):
    """One way in which a round of work is proven."""

    async def prove(self) -> str | None:
        """Return what to tell the actor, None when all is well. Raises ProofFailed at the end."""
        ...


class PlanExecutor:
    """Carries one owned plan through its two working phases."""

    def __init__(
        self,
        equipment: Equipment,
        ledger: Ledger,
        steering: Steering,
        *,
        carry: Carry,
        watching: Watching | None = None,
    ) -> None:
        """Take the seams; `carry` carries another plan to its end, for colleagues."""
        self._carry = carry
        self._equipment = equipment
        self._ledger = ledger
        self._steering = steering
        self._watching = watching or Watching()
        self.deadline = Deadline(ledger)  # of the plan, in the phase at hand

    async def strategize(self) -> None:
        """Think without writing: base, root decision, invariants, strategy (B3, B9 to B11).

        Idempotent once complete. Raises what ended the phase; the plan says so too.
        """
        state = self._ledger.state
        if state.phase != Phase.STRATEGIZE or state.state == State.COMPLETE:
            return
        require_walls(state.known)
        await begin(self._ledger, Phase.STRATEGIZE)
        room = self._equipment.room
        async with settling(self._ledger, Phase.STRATEGIZE, room), self.deadline.bounded():
            await persisting(self._think, self._ledger, self._steering, place_recovers)

    async def _think(self) -> None:
        await require_places(self._equipment, self._ledger.state)
        with step(self._ledger, Step.ANALYSIS) as going:
            base = await self._base()
            root_id = await root_decision(self._equipment.clock, self._ledger)
            await analyse(self._equipment, self._ledger, base)
            going.came_to(_asked(self._ledger.state))
        if self._ledger.state.known.charter.output == Output.ANSWER:
            looks = Turn(is_final=True, summary=LOOKS)
            await conclude(self._equipment.clock, self._ledger, looks, root_id)
            return
        with step(self._ledger, Step.ENVIRONMENT) as going:
            await prepared(self._equipment, self._ledger.state, base)
            going.came_to(str(general_site(self._ledger.state.known)))
        async with tidied(self._ledger) as opened:
            with step(self._ledger, Step.REPOSITORY) as going:
                reading = reading_ground(self._equipment, self._ledger, base)
                ground = await opened.enter_async_context(reading)
                going.came_to(f"{base.shown}, to read")
            work = self._at_work(ground, await self._subject(base))
            loop, _ = await opened.enter_async_context(work)
            with step(self._ledger, Step.ANALYSIS) as going:
                turn = await self._last_turn(loop)
                going.came_to(_said(turn))
        await conclude(self._equipment.clock, self._ledger, turn, root_id)

    async def execute(self) -> None:
        """Do the work in the sandbox, capture it and prove it (B4 to B8).

        Idempotent once complete. A proof that fails goes back to the actor for `rounds` rounds;
        then the plan is constrained.
        """
        state = self._ledger.state
        require_strategy(state)
        if state.phase == Phase.APPLY or (state.phase, state.state) == _EXECUTED:
            return
        require_walls(state.known)
        await after_restart(self._equipment, self._ledger)
        await begin(self._ledger, Phase.EXECUTE)
        async with settling(self._ledger, Phase.EXECUTE, self._equipment.room):
            try:
                async with distrusting(self._equipment, self._ledger), self.deadline.bounded():
                    await persisting(self._work, self._ledger, self._steering, place_recovers)
            except LimitReached:
                await self._keep()
                raise
            await self._ledger.record(Moved(phase=Phase.EXECUTE, state=State.COMPLETE))

    async def _work(self) -> None:
        if not has_steps(self._ledger.state):
            await require_places(self._equipment, self._ledger.state)
        base = await self._base()
        layers = await self._environment(base)
        prover = Prover(self._equipment, self._ledger, layers)
        subject = await self._subject(base)
        if not self._ledger.state.known.charter.is_writing:
            subject = await covered(self._equipment, self._ledger, prover, base, subject)
            await self._judge(base, layers, subject)
            return
        removal = removal_proof(self._equipment, self._ledger, prover, base, subject)
        async with tidied(self._ledger) as opened:
            with step(self._ledger, Step.REPOSITORY) as going:
                working = working_ground(self._equipment, self._ledger, base, layers)
                workspace = await opened.enter_async_context(working)
                going.came_to(f"{base.shown}, as {workspace.strategy}")
            work = self._at_work(given(workspace), subject)
            loop, places = await opened.enter_async_context(work)
            capture = Capture(self._equipment, self._ledger, prover, workspace)
            colleagues = self._colleagues(loop, places, capture)
            proofs = (capture, removal, colleagues) if removal else (capture, colleagues)
            turn = await self._turns(self._last_turn(loop))
            while (word := await self._next_word(turn, loop, places, proofs)) is not None:
                turn = await self._turns(loop.run(note=word))

    async def _environment(self, base: Base) -> Sequence[Path]:
        """Have what the work needs installed, and its invariants hold before it begins."""
        with step(self._ledger, Step.ENVIRONMENT) as going:
            await freshened(self._equipment, self._ledger)
            layers = await Setup(self._equipment, self._ledger).layers(base)
            if not has_steps(self._ledger.state):
                prover = Prover(self._equipment, self._ledger, layers)
                held = await invariants.check(self._ledger, prover, base, tree=None, when="before")
                invariants.require_held(held)
            going.came_to(_environment(self._ledger.state, layers))
        return layers

    async def _turns(self, working: Coroutine[Any, Any, Turn]) -> Turn:
        """Let the actor go on until it says that it is done."""
        with step(self._ledger, Step.EXECUTION) as going:
            turn = await working
            going.came_to(_said(turn))
        return turn

    def _colleagues(self, loop: AgentLoop, places: Places, capture: Capture) -> ColleagueRounds:
        """Return the plan's further roles, which look at what is proven."""

        async def settle() -> str | None:
            await places.end()
            await loop.end_round()
            return await capture.prove()

        return ColleagueRounds(
            self._equipment,
            self._ledger,
            self._steering,
            carry=self._carry,
            put=loop.put,
            settle=settle,
        )

    async def _subject(self, base: Base) -> Subject | None:
        """Return the change that the role's work is about; None for a role that makes one."""
        spec = self._ledger.state.known
        if spec.charter.output == Output.CHANGES:
            return None
        if spec.charter.output == Output.ANSWER and spec.subject in {"", base.tree}:
            return None
        return await self._equipment.subjects.subject(base, before=spec.subject)

    async def _judge(self, base: Base, layers: Sequence[Path], subject: Subject | None) -> None:
        """Let a role that writes nothing say what it is for."""
        judging = Judging(self._equipment, self._ledger, base, subject)
        async with tidied(self._ledger) as opened:
            with step(self._ledger, Step.REPOSITORY) as going:
                reading = reading_ground(self._equipment, self._ledger, base, layers=layers)
                ground = await opened.enter_async_context(reading)
                going.came_to(f"{base.shown}, to read")
            work = self._at_work(ground, subject)
            loop, _ = await opened.enter_async_context(work)
            turn = await self._turns(self._last_turn(loop))
            while (word := await self._judged(turn, judging)) is not None:
                turn = await self._turns(loop.run(note=word))

    async def _judged(self, turn: Turn, judging: Judging) -> str | None:
        if turn.failure:
            raise unable(turn)
        await self._ledger.record(WorkSummarised(summary=turn.summary[:4000]))
        with step(self._ledger, Step.VALIDATION) as going:
            complaint = await judging.take(turn)
            going.came_to(complaint or "it is as it must be")
        return complaint

    async def _next_word(
        self, turn: Turn, loop: AgentLoop, places: Places, proofs: Sequence[Proving]
    ) -> str | None:
        """Prove a round of work; return what to go on with, None when all is done and said."""
        is_over = turn.failure and not turn.can_go_on
        if not is_over and await self._is_guided():
            return ""
        complaint = await self._proven(turn, loop, places, proofs)
        if complaint is None and (turn.has_more or await self._is_guided()):
            return ""
        return complaint

    async def _is_guided(self) -> bool:
        """Whether there is guidance that the actor has not heard."""
        await self._steering.step()
        await self._steering.take_in()
        return bool(self._ledger.state.steered.guidance)

    async def _keep(self) -> None:
        """Capture what a plan has when a limit stops it: unproven, for `plan diff`.

        That takes KEEPING_S at most: its time may be over.
        """
        state = self._ledger.state
        if state.base is None or state.workspace is None:
            return
        try:
            async with working_ground(self._equipment, self._ledger, state.base, ()) as workspace:
                prover = Prover(self._equipment, self._ledger, ())
                async with asyncio.timeout(KEEPING_S) as scope:
                    await Capture(self._equipment, self._ledger, prover, workspace).keep()
        except TimeoutError:
            if not scope.expired():
                raise
            await self._ledger.record(Noted(text=f"{NOT_CAPTURED} within {KEEPING_S:g} s"))
        except PatchyardError as error:  # the limit stays the reason of the stop
            await self._ledger.record(Noted(text=f"{NOT_CAPTURED}: {error.message}"))

    async def _proven(
        self, turn: Turn, loop: AgentLoop, places: Places, proofs: Sequence[Proving]
    ) -> str | None:
        """End a round of work: what the actor left running ends before anything is looked at."""
        if turn.failure:
            raise unable(turn)
        await self._ledger.record(WorkSummarised(summary=turn.summary[:4000]))
        await places.end()
        await loop.end_round()
        with step(self._ledger, Step.VALIDATION) as going:
            for proof in proofs:
                complaint = await proof.prove()
                if complaint is not None:
                    going.came_to(complaint)
                    return complaint
            going.came_to(_proven(self._ledger.state))
        return None

    async def _last_turn(self, loop: AgentLoop) -> Turn:
        """Return the final turn, the one of an earlier life when that settled the matter."""
        turn = await loop.take_up() if has_steps(self._ledger.state) else None
        if turn is not None and not turn.can_go_on:
            return turn
        asked = self._ledger.state.asked
        return await loop.run(note=asked.note if asked is not None else "")

    def _at_work(
        self, ground: Ground, subject: Subject | None
    ) -> AbstractAsyncContextManager[tuple[AgentLoop, Places]]:
        return at_work(
            self._equipment,
            self._ledger,
            ground,
            self._steering,
            watching=self._watching,
            inquiries=Inquiries(
                self._equipment, self._ledger, self._steering, ground, carry=self._carry
            ),
            subject=shown_subject(subject),
        )

    async def _base(self) -> Base:
        state = self._ledger.state
        if state.base is None:
            spec = state.known
            base = await self._equipment.trees.snapshot(Path(spec.repository), ref=spec.ref)
            await self._ledger.record(BaseRecorded(base=base))
            return base
        return state.base


def _asked(state: PlanState) -> str:
    """Say what the task and its repository look like."""
    found = state.analysed
    if found is None:
        return ""
    count = found.context.files
    files = "1 file" if count == 1 else f"{count} files"
    return f"{found.analysis.kind}, {found.analysis.complexity}; {files}"


def _said(turn: Turn) -> str:
    return turn.failure or turn.summary or turn.text


def _environment(state: PlanState, layers: Sequence[Path]) -> str:
    """Say where the work is done, and what was installed for it."""
    setup = state.setup
    if setup is None or not layers:
        return f"{general_site(state.known)}, without setup"
    how = "kept from before" if setup.is_cached else "ran"
    return f"{general_site(state.known)}, setup {how}: {'; '.join(setup.commands)}"


def _proven(state: PlanState) -> str:
    validation = state.validation
    if validation is None or not validation.is_proof:
        return "nothing was run: unproven"
    return f"proven in round {validation.round}"


__all__ = ["PlanExecutor", "Proving"]
