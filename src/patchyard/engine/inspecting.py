"""Looks at what lies around plans' events: the store's structure, its list, files beside it.

Nothing is repaired or written: what is wrong is said.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.domain import retention
from patchyard.domain.errors import PatchyardError
from patchyard.domain.retention import Family
from patchyard.domain.state import PlanState
from patchyard.engine.equipment import Equipment
from patchyard.engine.finding import LISTED
from patchyard.engine.ledger import Ledger, summary

LINE = "the line of {} in the list is {}: `agents gc` makes it anew"
OF_EACH_EVENT = "updated"  # a line is not written with each event
WORK = (Family.WORKSPACE, Family.CHECKPOINTS)


async def inspect(equipment: Equipment) -> Sequence[str]:
    """Return what is wrong with the journal as a whole, a sentence each."""
    found = [*await equipment.inspection.structure(), *await equipment.inspection.streams()]
    listed = dict(await equipment.store.summaries.summaries())
    found += [LINE.format(plan, "lost") for plan, row in listed.items() if not is_listed(row)]
    known = {*listed, *(each.plan_id for each in await equipment.pruning.removed())}
    keepers = [keeper for keeper in equipment.keepers if keeper.family in WORK]
    things = [each for keeper in keepers for each in await keeper.found()]
    lost = {each.plan_id for each in things if retention.is_work(each)} - known
    return [*found, *(f"{plan}: {retention.UNKNOWN}" for plan in sorted(lost))]


async def inspect_around(equipment: Equipment, plan_id: str) -> Sequence[str]:
    """Return what is wrong around the events of one plan: the structure, its line in the list."""
    found = list(await equipment.inspection.structure())
    try:
        ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
    except PatchyardError:
        return found  # a check of the events says why
    row = dict(await equipment.store.summaries.summaries()).get(plan_id, {})
    if not is_listed(row):
        found.append(LINE.format(plan_id, "lost"))
    elif differs(row, ledger.state):
        found.append(LINE.format(plan_id, "not what its events say"))
    return found


def is_listed(row: Mapping[str, Any]) -> bool:
    """Whether a line of the list has all that each line has."""
    return row.keys() >= LISTED


def differs(row: Mapping[str, Any], state: PlanState) -> bool:
    """Whether a line of the list says something else than its plan's events do."""
    shown = summary(state)
    return any(row[key] != shown[key] for key in (row.keys() & shown.keys()) - {OF_EACH_EVENT})


__all__ = ["differs", "inspect", "inspect_around", "is_listed"]
