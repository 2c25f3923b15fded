"""Commands that only look at a plan: open it, build the answer, print it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from patchyard.cli.opening import opened
from patchyard.cli.outcome import JSON, Outcome, carry_out
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data

Look = Callable[[Equipment, Ledger], Awaitable[Outcome]]


def look_at(command: str, plan_id: str, output_format: str, look: Look) -> None:
    """Open the plan that `plan_id` names and print what `look` says of it.

    Programs are told all that is known of the plan beside it.
    """

    async def work() -> Outcome:
        async with opened(plan_id) as (equipment, found):
            ledger = await Ledger.open(equipment.store, equipment.clock, found)
            outcome = await look(equipment, ledger)
            if output_format != JSON:
                return outcome
            return replace(outcome, data={**await plan_data(ledger), **outcome.data})

    carry_out(command, output_format, work)


__all__ = ["Look", "look_at"]
