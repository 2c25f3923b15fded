"""The loop of an actor at work: think, act, again, until it says that it is done."""

from collections.abc import Sequence

from patchyard.contracts.actor import Answered, Session, Turn
from patchyard.domain.budget import passed_limit
from patchyard.domain.codec import from_json
from patchyard.domain.errors import LimitReached
from patchyard.domain.events import Noted, TurnRequested, TurnTaken
from patchyard.domain.messages import Usage
from patchyard.domain.transcript import Step, transcript
from patchyard.engine.ledger import Ledger
from patchyard.engine.rows import body_of
from patchyard.engine.tool_runner import ToolRunner, result_of

CHARACTERS_PER_TOKEN = 4  # a rough mean, as vendors state it for English and code


class AgentLoop:
    """One session of one actor, journalled step by step, so that it can be taken up again."""

    def __init__(self, ledger: Ledger, session: Session, runner: ToolRunner) -> None:
        self._ledger = ledger
        self._session = session
        self._runner = runner
        self._answers: Sequence[Answered] = ()
        self._used: Usage | None = None  # by the last turn that asked a model

    async def run(self, *, note: str = "") -> Turn:
        """Go on until the actor's final turn. Raises LimitReached before a step too many."""
        while True:
            turn = await self.think(note)
            if turn.is_final:
                return turn
            self._answers = await self.act(turn)
            note = ""

    async def think(self, note: str) -> Turn:
        """Ask the actor once; intent and outcome are journalled."""
        state = self._ledger.state
        limit = passed_limit(state.limits, state.spent)
        if limit is not None:
            raise LimitReached(
                limit,
                hint="`agents plan limit` raises it, `agents plan resume` goes on; nothing is lost",
            )
        number = state.turn + 1
        asked = TurnRequested(turn=number, note=note, reserved_tokens=self._expected())
        await self._ledger.record(asked)
        turn = await self._session.next(self._answers, note=note)
        usage = turn.usage
        self._used = usage or self._used
        taken = TurnTaken(
            turn=number,
            note=note,
            body=body_of(turn),
            usd=turn.usd,
            input_tokens=usage.input_tokens if usage else 0,
            output_tokens=usage.output_tokens if usage else 0,
            asked_model=usage is not None,
        )
        said = (Noted(text=turn.sent_back),) if turn.sent_back else ()
        if turn.is_final:
            await self._ledger.record(taken, *said)
        else:
            self._ledger.note(taken, *said)
        self._answers = ()
        return turn

    def _expected(self) -> int:
        """Tokens that the next request takes at least: the last one, and what came of it."""
        if self._used is None:
            return 0
        new = sum(len(answer.text) for answer in self._answers) // CHARACTERS_PER_TOKEN
        return self._used.input_tokens + self._used.output_tokens + new

    async def act(self, turn: Turn) -> Sequence[Answered]:
        """Carry out the calls of `turn`, one after the other."""
        number = self._ledger.state.turn
        return [await self._runner.run(wanted, turn=number) for wanted in turn.calls]

    async def take_up(self) -> Turn | None:
        """Bring the session to where the journal says it was.

        Calls that were sent are settled by re-attaching, calls that were not are sent now. Returns
        the last turn when it was final, None when there is more to think about.
        """
        starts = self._ledger.state.attempt_starts
        steps = transcript(await self._ledger.events(), starts=starts)
        turn = None
        for step in steps:
            turn = from_json(Turn, await self._ledger.value(step.taken.body))
            self._used = turn.usage or self._used
            await self._session.restore(turn, self._answers, note=step.taken.note)
            self._answers = await self._answers_of(step, turn)
        return turn if turn is not None and turn.is_final else None

    async def _answers_of(self, step: Step, turn: Turn) -> Sequence[Answered]:
        answers = []
        for number, wanted in enumerate(turn.calls):
            if number >= len(step.calls):
                answers.append(await self._runner.run(wanted, turn=step.taken.turn))
                continue
            call, settled = step.calls[number]
            if settled is None:
                live = self._ledger.state.environments.get(call.environment_id)
                handle = live.handle if live else None
                answers.append(await self._runner.settle_left_over(call, handle))
            else:
                result = result_of(settled, await self._ledger.value(settled.data))
                answers.append(self._runner.answered(call.ref, call.name, result))
        return answers


__all__ = ["CHARACTERS_PER_TOKEN", "AgentLoop"]
