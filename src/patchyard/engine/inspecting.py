"""Looks at what lies around plans' events: the store's structure, its list, files beside it.

Nothing is repaired or written: what is wrong is said.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from patchyard.domain import retention
from patchyard.domain.errors import PatchyardError
from patchyard.domain.plan import Phase, State
from patchyard.domain.retention import Family
from patchyard.engine.equipment import Equipment
from patchyard.engine.finding import is_sound
from patchyard.engine.ledger import Ledger
from patchyard.engine.listed import summary
from patchyard.engine.restarts import doubt

LINE = "the line of {} in the list is {}: `agents gc` makes it anew"
OF_SOME_EVENT = "updated"  # the time of one: a line is not written with each
WORK = (Family.WORKSPACE, Family.CHECKPOINTS)
UNFINISHED = frozenset({State.QUEUED, State.PROCESSING, State.ERRORED, State.CONSTRAINED})


async def inspect(equipment: Equipment) -> Sequence[str]:
    """Return what is wrong with the journal as a whole, a sentence each."""
    found = [*await equipment.inspection.structure(), *await equipment.inspection.streams()]
    keepers = [keeper for keeper in equipment.keepers if keeper.family in WORK]
    # Before the list: what another engine makes meanwhile is of a plan that the list has by then.
    things = [each for keeper in keepers for each in await keeper.found()]
    listed = dict(await equipment.store.summaries.summaries())
    found += [LINE.format(plan, "lost") for plan, row in listed.items() if not is_listed(row)]
    known = {*listed, *(each.plan_id for each in await equipment.pruning.removed())}
    lost = {each.plan_id for each in things if retention.is_work(each)} - known
    return [*found, *(f"{plan}: {retention.UNKNOWN}" for plan in sorted(lost))]


async def inspect_around(equipment: Equipment, plan_id: str) -> Sequence[str]:
    """Return what is wrong around the events of one plan: the structure, its line in the list."""
    found = list(await equipment.inspection.structure())
    row, seen = await _line(equipment, plan_id), None
    while row != seen:  # else the plan went on meanwhile
        try:
            ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
        except PatchyardError:
            return found  # a check of the events says why
        row, seen = await _line(equipment, plan_id), row
    if not is_listed(row):
        found.append(LINE.format(plan_id, "lost"))
    elif await differs(row, ledger):
        found.append(LINE.format(plan_id, "not what its events say"))
    return found


async def doubts(equipment: Equipment) -> Mapping[str, str]:
    """Return why files of unfinished plans may be older than their journals, by plan."""
    found: dict[str, str] = {}
    for plan_id, row in await equipment.store.summaries.summaries():
        if row.get("phase") == Phase.EXECUTE and row.get("state") in UNFINISHED:
            with suppress(PatchyardError):  # a check of its events says why
                found[plan_id] = await doubt_of(equipment, plan_id)
    return {plan_id: why for plan_id, why in found.items() if why}


async def doubt_of(equipment: Equipment, plan_id: str) -> str:
    """Return why the files of a plan may be older than its journal; empty for one that is over."""
    ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
    return await doubt(equipment, ledger) if ledger.state.state in UNFINISHED else ""


async def _line(equipment: Equipment, plan_id: str) -> Mapping[str, Any]:
    return dict(await equipment.store.summaries.summaries()).get(plan_id, {})


def is_listed(row: Mapping[str, Any]) -> bool:
    """Whether a line of the list has all that each line has."""
    return is_sound(row)


async def differs(row: Mapping[str, Any], ledger: Ledger) -> bool:
    """Whether a line of the list says something else than its plan's events do."""
    shown = summary(ledger.state)
    times = {at for _, at, _ in await ledger.events()}
    keys = (row.keys() & shown.keys()) - {OF_SOME_EVENT}
    return row[OF_SOME_EVENT] not in times or any(row[key] != shown[key] for key in keys)


__all__ = ["differs", "doubt_of", "doubts", "inspect", "inspect_around", "is_listed"]
