"""A pooled pair becomes a plan's own: what names it is changed, and the journal told.

The environment is noted as the plan's first: killed after that, the plan's next life ends it, and
makes its tree anew.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from patchyard.contracts.pool import Pooled
from patchyard.contracts.workspace import Renaming, WorkspaceRef
from patchyard.domain.changeset import Base
from patchyard.domain.codec import in_full
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.events import WorkspaceCreated
from patchyard.domain.pooling import Wish, relocated
from patchyard.engine.answers import whole
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.metering import as_bounded
from patchyard.engine.places import started_events
from patchyard.engine.sites import written_of
from patchyard.engine.wishing import wish_of


async def from_pool(
    equipment: Equipment, ledger: Ledger, base: Base, layers: Sequence[Path]
) -> WorkspaceRef | None:
    """Return the tree that came from the pool with its environment; None: none came."""
    pool, workspaces = equipment.pool, equipment.workspaces
    state = ledger.state
    if pool is None or state.restoring or not isinstance(workspaces, Renaming):
        return None  # what is restored is not a fresh tree
    wish = wish_of(equipment, state.known, base, layers)
    pooled = None if wish is None else await pool.take(wish)
    if wish is None or pooled is None:
        return None
    try:
        async with ledger.sole():
            return await whole(_adopted(equipment, ledger, workspaces, wish, pooled))
    except BaseException as error:
        if ledger.state.workspace is None:
            await pool.give_up(pooled)
        if isinstance(error, OSError):  # a start of its own says what is full, and where
            return None
        raise


async def _adopted(
    equipment: Equipment, ledger: Ledger, workspaces: Renaming, wish: Wish, pooled: Pooled
) -> WorkspaceRef:
    plan_id, old = ledger.plan_id, pooled.workspace
    place = Path(old.root).parent
    own = str(place.with_name(plan_id))
    handle = replace(pooled.handle, details=relocated(pooled.handle.details, str(place), own))
    for keeper in equipment.adopting:
        await keeper.adopt(handle, plan_id)
    workspace = await workspaces.rename(old, plan_id)
    tree = replace(wish.environment.workspace, source=workspace.root)
    spec = replace(wish.environment, workspace=tree, written=written_of(workspace))
    known = replace(handle, resource=spec.resource, details=as_bounded(handle, spec))
    try:
        await ledger.record(
            WorkspaceCreated(workspace=in_full(workspace)),
            *started_events(known, spec.purpose, is_from_pool=True),
        )
    except BaseException:
        await equipment.workspaces.remove(workspace)
        raise
    return workspace


async def let_go(equipment: Equipment, ledger: Ledger) -> None:
    """Close what the pool still holds of a plan's places: its work ended before it asked."""
    pool = equipment.pool
    for environment_id in ledger.state.environments:
        toolbox = None if pool is None else pool.connection(environment_id)
        if toolbox is not None:
            with contextlib.suppress(EnvironmentBroken):
                await toolbox.close()


__all__ = ["from_pool", "let_go"]
