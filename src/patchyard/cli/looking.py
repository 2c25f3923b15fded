"""Commands that only look at a plan: open it, build the answer, print it."""

from collections.abc import Awaitable, Callable

from patchyard.cli.opening import opened
from patchyard.cli.outcome import Outcome, carry_out
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger

Look = Callable[[Equipment, Ledger], Awaitable[Outcome]]


def look_at(command: str, plan_id: str, output_format: str, look: Look) -> None:
    """Open the plan that `plan_id` names and print what `look` says of it."""

    async def work() -> Outcome:
        async with opened(plan_id) as (equipment, found):
            ledger = await Ledger.open(equipment.store, equipment.clock, found)
            return await look(equipment, ledger)

    carry_out(command, output_format, work)


__all__ = ["Look", "look_at"]
