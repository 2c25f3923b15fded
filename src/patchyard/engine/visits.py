"""Short stays in an environment of the engine's own: for setup, for proof, for a person's shell."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from patchyard.contracts.environment import Toolbox
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.places import ended, started
from patchyard.engine.sites import general_kind, specs_for


@asynccontextmanager
async def visit(
    equipment: Equipment, ledger: Ledger, workspace: WorkspaceRef, *, purpose: str
) -> AsyncIterator[Toolbox]:
    """Start the plan's kind of environment over `workspace`; it ends with the block.

    Raises EnvironmentUnavailable when it cannot start.
    """
    spec = ledger.state.known
    kind = general_kind(spec)
    environment = equipment.environment(kind)
    specs = specs_for(equipment, ledger.plan_id, spec, workspace, purpose=purpose, is_writable=True)
    handle = await started(ledger, environment, specs[kind])
    try:
        toolbox = await environment.attach(handle)
        try:
            yield toolbox
        finally:
            await toolbox.close()
    finally:
        await ended(equipment, ledger, handle)


__all__ = ["visit"]
