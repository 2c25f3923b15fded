"""Environments of a plan that its journal never heard of: their engine was killed too early."""

import math

from patchyard.domain.errors import PatchyardError
from patchyard.domain.events import Noted
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.parting import in_time


async def end_strays(equipment: Equipment, ledger: Ledger) -> None:
    """End them, as the owner of the plan; those that will not end are noted and left.

    Raises FencedOff when another process owns it by now: the environments may be its.
    """
    known = ledger.state.environments
    async with ledger.sole():
        for keeper in equipment.of_plans:
            for found in await keeper.found_of(ledger.plan_id, besides=known):
                try:
                    await in_time(keeper.give_back(found, unused_since=math.inf))
                except PatchyardError as error:
                    await ledger.record(Noted(text=error.message))


__all__ = ["end_strays"]
