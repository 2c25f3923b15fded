"""From what was asked to a plan that is there: for the command line and for who embeds us."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from patchyard.casting import Shared, require_actor
from patchyard.cloning import localized, require_own_place
from patchyard.domain.changeset import Base
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.plain_text import require_plain
from patchyard.domain.plan import PlanSpec
from patchyard.domain.routing import sites_of
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.equipment import Equipment
from patchyard.engine.removal_proof import require_subject
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, Intake, take_in

IN_CONTAINERS = frozenset({ExecutionEnvironment.CONTAINER, ExecutionEnvironment.DEVCONTAINER})


async def considered(
    equipment: Equipment,
    asked: Asked,
    environ: Mapping[str, str],
    *,
    shared: Shared | None = None,
) -> Intake:
    """Return what a plan would be made of; a repository by its address is cloned first.

    `shared` is what the equipment was opened with. Raises UsageError, UnknownName, Unavailable,
    Conflict.
    """
    holdings = await Catalogue(equipment.store.journal, equipment.clock).holdings()
    local = await asyncio.to_thread(localized, asked, environ, holdings)
    intake = await asyncio.to_thread(take_in, local.asked, environ, holdings)  # git may run in it
    if local.is_clone:
        require_own_place(intake.spec.apply_to)  # settings say it too
    intake = replace(intake, notes=(*local.notes, *intake.notes))
    require_actor(intake.spec, environ, shared=shared)
    for site in sites_of(intake.spec):
        equipment.environment(site.kind)
        if site.kind in IN_CONTAINERS:
            shown = (intake.spec.repository, intake.spec.mounts, intake.spec.variables)
            require_plain(shown, taker="the container engine")
    return intake


async def made(equipment: Equipment, spec: PlanSpec) -> tuple[str, Base]:
    """Make the plan, on the checkout as it is now; return its id and its base.

    Raises UsageError where that holds nothing that the role's work could be about.
    """
    equipment.room.require()
    base = await equipment.trees.snapshot(Path(spec.repository), ref=spec.ref)
    await require_subject(equipment, spec, base)
    return await Workflow(equipment).create(spec, base=base), base


__all__ = ["IN_CONTAINERS", "considered", "made"]
