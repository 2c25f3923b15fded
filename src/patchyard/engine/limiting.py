"""A plan's own limits, set anew: at once where nobody works on it, else by a word to its owner."""

import asyncio
import json
from collections.abc import Callable

from patchyard.domain.budget import PlanLimits
from patchyard.domain.codec import in_full
from patchyard.domain.errors import Conflict
from patchyard.domain.events import LimitsChanged
from patchyard.engine import control
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import load
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.steering import Steering

POLL_S = 0.05
POLLS = 100  # 5 s: how long the owner may take to a step between two calls

Setting = Callable[[PlanLimits], PlanLimits]


async def set_limits(equipment: Equipment, plan_id: str, setting: Setting) -> bool:
    """Set a plan's limits anew, whoever works on it; return whether they count already.

    Where they do not, the word is on disk and the owner takes it in before its next step.
    """
    journal, clock = equipment.store.journal, equipment.clock
    number = 0
    for _ in range(POLLS):
        try:
            async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
                await Steering(equipment, ledger).take_in()  # the word too, where it was said
                if not number:
                    await ledger.record(LimitsChanged(limits=setting(ledger.state.limits)))
        except Conflict:
            state, _ = await load(journal, plan_id)
            if not number:
                text = json.dumps(in_full(setting(state.limits)))
                number = await control.say(journal, clock, plan_id, control.LIMIT, text=text)
            elif state.steered.heard >= number:
                return True
        else:
            return True
        await asyncio.sleep(POLL_S)
    return False


__all__ = ["POLLS", "POLL_S", "Setting", "set_limits"]
