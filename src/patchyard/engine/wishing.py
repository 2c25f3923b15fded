"""What a plan would be given by the pool: everything that its place is started with, as data."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from patchyard.contracts.environment import Furnished
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.changeset import Base
from patchyard.domain.environment import EnvironmentSpec, Site
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.domain.plan import Phase, PlanSpec
from patchyard.domain.pooling import POOLED, Wish
from patchyard.domain.state import PlanState
from patchyard.engine.equipment import Equipment
from patchyard.engine.sites import general_site, image_of, specs_for

NOWHERE = WorkspaceRef(
    workspace_id="", strategy="", root="/nowhere", owner_uid=0, owner_gid=0, details={}
)


def wish_of(
    equipment: Equipment, spec: PlanSpec, base: Base, layers: Sequence[Path]
) -> Wish | None:
    """Return what a plan of `spec` works in; None where places of that kind are not pooled."""
    site = general_site(spec)
    if site.kind not in POOLED or site.kind not in equipment.environments:
        return None
    return Wish(
        project=spec.project or spec.repository,
        base=base,
        layers=tuple(map(str, layers)),
        folders=spec.include,
        site=site,
        environment=spec_at(equipment, spec, "", NOWHERE, site),
        plan=spec,
    )


async def prepared(equipment: Equipment, state: PlanState, base: Base) -> None:
    """Have the place of a plan's work made while it is planned, where its setup is known."""
    pool, spec = equipment.pool, state.known
    if pool is None or (spec.setup and not _is_set_up(state, base)):
        return
    wish = wish_of(equipment, spec, base, _layers(state))
    if wish is None:
        return
    environment = equipment.environment(wish.site.kind)
    if isinstance(environment, Furnished):
        image = image_of(wish.site, spec)
        try:
            found = await environment.programs(base.repository, image=image)
        except EnvironmentUnavailable:  # the work itself says so
            return
        wish = replace(wish, programs=dict(found))
    pool.prepare(wish)


def _is_set_up(state: PlanState, base: Base) -> bool:
    """Whether the plan's setup layer is, or may be, that of `base` too."""
    if state.setup is None:
        return False
    return state.known.setup_share != "tree" or state.base == base


def _layers(state: PlanState) -> list[Path]:
    return [] if state.setup is None else [Path(state.setup.layer)]


def spec_at(
    equipment: Equipment, spec: PlanSpec, plan_id: str, workspace: WorkspaceRef, site: Site
) -> EnvironmentSpec:
    """Return what the place of a plan's work is started with over a tree."""
    specs = specs_for(
        equipment, plan_id, spec, workspace, purpose=str(Phase.EXECUTE), is_writable=True
    )
    return specs[site]


__all__ = ["NOWHERE", "prepared", "spec_at", "wish_of"]
