"""Plans that are left to workers: queued, and what is shown of them there."""

import os
from collections.abc import Mapping

from patchyard.assembly import open_equipment
from patchyard.cli.outcome import Outcome, paint, visible
from patchyard.cli.working import made_plan, waiting
from patchyard.configuration import configure
from patchyard.domain.plan import MANUAL
from patchyard.domain.queue import Errand, Limits, Member, job_of
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data
from patchyard.engine.standing import Standing, standings
from patchyard.intake import Asked


async def queue_plan(
    asked: Asked, environ: Mapping[str, str], *, priority: int, delay_s: float
) -> Outcome:
    """Make the plan that `asked` describes and leave it to a worker."""
    async with open_equipment(environ) as equipment:
        plan_id, spec, _ = await made_plan(equipment, asked, environ)
        if spec.automation_profile == MANUAL:
            return await waiting(equipment, plan_id)
        return await queued(equipment, plan_id, priority=priority, delay_s=delay_s)


async def queued(
    equipment: Equipment, plan_id: str, *, priority: int = 0, delay_s: float = 0.0
) -> Outcome:
    """Put a plan into the queue; it is there, on disk, when this returns."""
    ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
    not_before = equipment.clock.now() + delay_s if delay_s else 0.0
    spec = ledger.state.known
    job = job_of(plan_id, spec, errand=Errand.RUN, priority=priority, not_before=not_before)
    await equipment.queue.put(job)
    members = await equipment.queue.members()
    workers = [each.name for each in members if each.is_worker and not each.is_draining]
    standing = (await places_in_queue(equipment)).get(plan_id)
    data = {
        **await plan_data(ledger),
        "queue": standing.data() if standing else None,
        "workers": workers,
    }
    said = f"follow it with: agents plan watch {plan_id}"
    if not workers:
        said = "no worker is alive: start one with `agents worker`"
    elif standing is not None and standing.is_stranded:
        said = f"no living worker takes the role {spec.role}: start one with `agents worker`"
    text = f"plan {plan_id} is queued in {visible(spec.repository)}\n{said}"
    return Outcome(data=data, text=text)


async def places_in_queue(equipment: Equipment) -> Mapping[str, Standing]:
    """Return where each job of this installation stands, by the limits that are set here."""
    limits = configure(os.environ).value("slots") or Limits()
    return await standings(equipment.queue, equipment.clock, limits)


async def is_awaited(equipment: Equipment, plan_id: str) -> bool:
    """Whether somebody works on a plan, or there are workers that will."""
    if await equipment.claims.holder(plan_id):
        return True
    standing = (await places_in_queue(equipment)).get(plan_id)
    return standing is not None and not standing.is_stranded


def owner_data(owner: Member | None) -> Mapping[str, object] | None:
    """Return who owns a plan, for programs."""
    if owner is None:
        return None
    return {"worker": owner.name if owner.is_worker else None, "process": owner.seat.pid}


def standing_line(standing: Standing | None, owner: Member | None) -> str:
    """Return the line of a plan's screen that says who is at it, or what it waits for."""
    if owner is not None:
        return f"\n  {paint('by'.ljust(8), 'cyan')} {visible(owner.shown)}"
    if standing is None or not standing.waits_for:
        return ""
    return f"\n  {paint('waiting', 'cyan')}  in the queue, for {visible(standing.waits_for)}"


__all__ = ["is_awaited", "owner_data", "places_in_queue", "queue_plan", "queued", "standing_line"]
