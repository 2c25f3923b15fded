"""Commands that only look at a plan: open it, build the answer, print it."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from patchyard.assembly import open_equipment
from patchyard.cli.outcome import Outcome, Speaking, carry_out
from patchyard.engine.equipment import Equipment
from patchyard.engine.finding import find_plan
from patchyard.engine.ledger import Ledger

Look = Callable[[Equipment, Ledger], Awaitable[Outcome]]


def look_at(command: str, plan_id: str, output_format: str, look: Look) -> None:
    """Open the plan that `plan_id` names and print what `look` says of it."""

    async def work() -> Outcome:
        async with open_equipment(os.environ) as equipment:
            here = str(Path.cwd())
            found = await find_plan(equipment.store.summaries, plan_id, repository=here)
            ledger = await Ledger.open(equipment.store, equipment.clock, found)
            return await look(equipment, ledger)

    carry_out(Speaking(command=command, is_json=output_format == "json"), work)


__all__ = ["Look", "look_at"]
