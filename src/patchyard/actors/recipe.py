"""The actors that need no model: they carry out an action's declared steps, the same way each time.

`StrategizeStubActor` and `ExecuteStubActor` are the names of B1. Their sessions replay: `restore`
drives the same procedure with the recorded answers.
"""

from collections.abc import Sequence

from patchyard.actors.asking import Calls, Ending, Procedure, Reply
from patchyard.actors.forecast import Forecast
from patchyard.actors.procedure import Execution
from patchyard.clients.substitution import Substituter
from patchyard.contracts.actor import Answered, Brief, Turn
from patchyard.domain.errors import GuardRefused, ProofFailed, UsageError
from patchyard.domain.faults import Fault
from patchyard.domain.recipe import Step, parse_steps


class StrategizeStubActor:
    """Tells what the steps of a recipe will do. Reads only (B3)."""

    async def begin(self, brief: Brief) -> "RecipeSession":
        """Open a session. Raises UsageError for steps that do not fit."""
        return RecipeSession(Forecast().whole(steps_of(brief), dict(brief.arguments)))


class ExecuteStubActor:
    """Carries the steps of a recipe out with the ordinary tools."""

    async def begin(self, brief: Brief) -> "RecipeSession":
        """Open a session. Raises UsageError for steps that do not fit."""
        return RecipeSession(Execution().whole(steps_of(brief), dict(brief.arguments)))


def steps_of(brief: Brief) -> Sequence[Step]:
    """Return the steps of `brief`. Raises UsageError when there are none or one does not fit."""
    if not brief.steps:
        raise UsageError(
            "the recipe actor carries out declared steps, and this plan has none",
            hint="use an action with `steps:`, or another actor: --agent model",
        )
    try:
        return parse_steps(list(brief.steps), tuple(brief.arguments))
    except Fault as fault:
        raise UsageError(fault.message, hint=fault.hint) from fault


class RecipeSession:
    """contracts.actor.Session: one procedure on its way."""

    def __init__(self, procedure: Procedure[Ending]) -> None:
        self._procedure = procedure
        self._substituter = Substituter()
        self._began = False
        self._ending: Ending | None = None

    async def next(self, answers: Sequence[Answered], *, note: str = "") -> Turn:
        """Return the next calls or the end.

        Raises ProofFailed when it is asked for more after its end: a recipe has no second way.
        """
        if self._ending is not None:
            raise ProofFailed(
                "the recipe is done, and it does not pass the proof",
                hint="mend the action's steps, or try `--agent model`",
                details={"note": note[:4000]},
            )
        return await self._advance(answers if self._began else None)

    async def restore(self, turn: Turn, answers: Sequence[Answered], *, note: str = "") -> None:
        """Go the same step again. Raises GuardRefused when it leads elsewhere now."""
        if self._ending is not None:
            return
        again = await self._advance(answers if self._began else None)
        if (again.calls, again.is_final) != (turn.calls, turn.is_final):
            raise GuardRefused(
                f"the recipe goes another way than before{f' ({note[:80]})' if note else ''}",
                hint="it was begun by another version of Patchyard; begin the phase again",
            )

    async def close(self) -> None:
        """End the session."""
        self._procedure.close()
        await self._substituter.close()

    async def _advance(self, reply: Reply) -> Turn:
        self._began = True
        while True:
            try:
                question = self._procedure.send(reply)
            except StopIteration as stopped:
                ending: Ending = stopped.value
                self._ending = ending
                return Turn(
                    is_final=True,
                    summary=ending.summary,
                    failure=ending.failure,
                    proposals=ending.proposals,
                    text=ending.summary if ending.failure else "",
                )
            if isinstance(question, Calls):
                return Turn(calls=question.wanted, text=question.text)
            reply = await self._substituter.replace(question)


__all__ = ["ExecuteStubActor", "RecipeSession", "StrategizeStubActor", "steps_of"]
