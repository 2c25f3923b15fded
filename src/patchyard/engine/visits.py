"""Short stays in an environment of the engine's own: for setup, for proof, for a person's shell."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.usage import NOTHING
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.metering import Metered, metered
from patchyard.engine.parting import let_go
from patchyard.engine.places import ended, started
from patchyard.engine.sites import general_site, specs_for


@asynccontextmanager
async def visit(
    equipment: Equipment, ledger: Ledger, workspace: WorkspaceRef, *, purpose: str
) -> AsyncIterator[Metered]:
    """Start the plan's environment over `workspace`; it ends with the block.

    Raises EnvironmentUnavailable when it cannot start.
    """
    spec = ledger.state.known
    site = general_site(spec)
    environment = equipment.environment(site.kind)
    specs = specs_for(equipment, ledger.plan_id, spec, workspace, purpose=purpose, is_writable=True)
    handle = await started(equipment, ledger, environment, specs[site])
    calls = NOTHING
    try:
        toolbox = metered(environment, handle, await environment.attach(handle))
        try:
            yield toolbox
        finally:
            await let_go(toolbox.close())
            calls = toolbox.calls
    finally:
        await ended(equipment, ledger, handle, calls=calls)


__all__ = ["visit"]
