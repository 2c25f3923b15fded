"""Plans that are left to a worker: queued, and what they wait for there."""

from collections.abc import Mapping

from patchyard.assembly import open_equipment
from patchyard.cli.outcome import Outcome, visible
from patchyard.cli.working import made_plan
from patchyard.domain.queue import Errand, job_of
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data
from patchyard.intake import Asked


async def queue_plan(
    asked: Asked, environ: Mapping[str, str], *, priority: int, delay_s: float
) -> Outcome:
    """Make the plan that `asked` describes and leave it to a worker."""
    async with open_equipment(environ) as equipment:
        plan_id, _, _ = await made_plan(equipment, asked, environ)
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
    workers = [each.name for each in await equipment.queue.members() if each.is_worker]
    data = {**await plan_data(ledger), "workers": workers}
    said = (
        f"follow it with: agents plan watch {plan_id}"
        if workers
        else "no worker is alive: start one with `agents worker`"
    )
    text = f"plan {plan_id} is queued in {visible(spec.repository)}\n{said}"
    return Outcome(data=data, text=text)


__all__ = ["queue_plan", "queued"]
