"""Commands that carry a plan on: progress while it happens, one screen at the end."""

from collections.abc import Awaitable, Mapping

import click

from patchyard.assembly import open_equipment
from patchyard.cli.outcome import Outcome, visible
from patchyard.cli.progress import json_lines, spoken_lines
from patchyard.cli.screen import plan_screen
from patchyard.domain.errors import PatchyardError, WorkFailed
from patchyard.domain.state import PlanState
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data
from patchyard.engine.workflow import Watching, Workflow
from patchyard.intake import Asked, spec_of


def watching(*, is_json: bool, stream: bool) -> Watching:
    """Return who watches: JSON Lines, spoken lines, or nobody."""
    if is_json:
        return Watching(on_event=json_lines if stream else None)
    return Watching(on_event=spoken_lines)


async def run_plan(
    asked: Asked, environ: Mapping[str, str], *, is_json: bool, stream: bool
) -> Outcome:
    """Make the plan that `asked` describes and carry it out."""
    async with open_equipment(environ) as equipment:
        spec = spec_of(asked, environ)
        workflow = Workflow(equipment, watching=watching(is_json=is_json, stream=stream))
        plan_id = await workflow.create(spec)
        if not is_json:
            click.echo(f"plan {plan_id} in {visible(spec.repository)}", err=True)
        return await carried(equipment, plan_id, workflow.run(plan_id))


async def carried(equipment: Equipment, plan_id: str, work: Awaitable[PlanState]) -> Outcome:
    """Await `work` and return the plan's data and screen, whatever it came to."""
    error: PatchyardError | None = None
    try:
        await work
    except PatchyardError as failure:
        error = failure
    ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
    data = await plan_data(ledger)
    if error is None and ledger.state.known.requires_changes and not data["changed"]:
        error = WorkFailed("nothing was changed", hint="--require-changes asked for a change")
    return Outcome(data=data, text=plan_screen(data), error=error)


__all__ = ["carried", "run_plan", "watching"]
