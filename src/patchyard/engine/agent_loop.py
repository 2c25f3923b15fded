"""The loop of an actor at work: think, act, again, until it says that it is done."""

import functools
from collections.abc import Sequence

from patchyard.contracts.actor import Answered, Session, Turn, Wanted
from patchyard.domain.events import Noted, TurnRequested, TurnTaken
from patchyard.domain.meanings import restored
from patchyard.domain.steering import Guided, guidance_text, spoken
from patchyard.domain.transcript import Step, transcript
from patchyard.engine.budgeting import PlanMeter
from patchyard.engine.call_results import result_of
from patchyard.engine.ledger import Ledger
from patchyard.engine.persisting import model_recovers, persisting
from patchyard.engine.rows import body_of
from patchyard.engine.steering import Steering
from patchyard.engine.tool_runner import ToolRunner


class AgentLoop:
    """One session of one actor, journalled step by step, so that it can be taken up again."""

    def __init__(
        self,
        ledger: Ledger,
        session: Session,
        runner: ToolRunner,
        steering: Steering,
        meter: PlanMeter,
    ) -> None:
        self._ledger = ledger
        self._session = session
        self._runner = runner
        self._steering = steering
        self._meter = meter
        self._answers: Sequence[Answered] = ()

    async def run(self, *, note: str = "") -> Turn:
        """Go on until the actor's final turn. Raises LimitReached before a step too many.

        Guidance is told with the next turn. A model that fails for a while is asked again.
        """
        while True:
            await self._steering.step()
            asking = functools.partial(self.think, note, self._ledger.state.steered.guidance)
            turn = await persisting(asking, self._ledger, self._steering, model_recovers)
            if turn.is_final:
                return turn
            self._answers = await self.act(turn)
            note = ""

    async def think(self, note: str, guided: tuple[Guided, ...] = ()) -> Turn:
        """Ask the actor once; intent and outcome are journalled. Raises LimitReached."""
        await self._meter.admit()
        number = self._ledger.state.turn + 1
        guidance = guidance_text(guided)
        self._meter.begin(TurnRequested(turn=number, note=note, told=len(guided)))
        turn = await self._session.next(self._answers, note=spoken(note, guidance))
        await self._meter.end()
        usage = turn.usage
        taken = TurnTaken(
            turn=number,
            note=note,
            body=body_of(turn),
            usd=turn.usd,
            input_tokens=usage.input_tokens if usage else 0,
            output_tokens=usage.output_tokens if usage else 0,
            asked_model=usage is not None,
            guidance=guidance,
            model=turn.model,
        )
        said = (Noted(text=turn.sent_back),) if turn.sent_back else ()
        if turn.is_final:
            await self._ledger.record(taken, *said)
        else:
            self._ledger.note(taken, *said)
        self._answers = ()
        return turn

    async def act(self, turn: Turn) -> Sequence[Answered]:
        """Carry out the calls of `turn`, one after the other."""
        number = self._ledger.state.turn
        answers = []
        for wanted in turn.calls:
            await self._steering.step()
            answers.append(await self._runner.run(wanted, turn=number))
        return answers

    async def put(self, wanted: Wanted) -> str:
        """Make a call that no turn asked for; return what is wrong, nothing where it went well."""
        if wanted.problem:
            return wanted.problem
        answered = await self._runner.run(wanted, turn=self._ledger.state.turn)
        return "" if answered.result.success else answered.result.message

    async def end_round(self) -> None:
        """Keep the files as this round of work left them. Nothing runs there any more."""
        await self._runner.end_round()

    async def take_up(self) -> Turn | None:
        """Bring the session to where the journal says it was.

        Calls that were sent are settled by re-attaching, calls that were not are sent now. Returns
        the last turn when it was final, None when there is more to think about.
        """
        starts = self._ledger.state.attempt_starts
        steps = transcript(await self._ledger.events(), starts=starts)
        turn = None
        for step in steps:
            turn = restored(Turn, await self._ledger.value(step.taken.body))
            said = spoken(step.taken.note, step.taken.guidance)
            await self._session.restore(turn, self._answers, note=said)
            self._answers = await self._answers_of(step, turn)
        return turn if turn is not None and turn.is_final else None

    async def _answers_of(self, step: Step, turn: Turn) -> Sequence[Answered]:
        answers = []
        for number, wanted in enumerate(turn.calls):
            if number >= len(step.calls) and step.is_cut:
                answers.append(await self._runner.take_back(wanted, turn=step.taken.turn))
                continue
            if number >= len(step.calls):
                answers.append(await self._runner.run(wanted, turn=step.taken.turn))
                continue
            call, settled = step.calls[number]
            if settled is None:
                answers.append(await self._runner.settle_left_over(call))
            else:
                result = result_of(settled, await self._ledger.value(settled.data))
                answers.append(self._runner.answered(call.ref, call.name, result))
        return answers


__all__ = ["AgentLoop"]
