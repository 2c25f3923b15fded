"""What a restart of the machine means for a plan: its files may be older than its journal.

So does a disk that failed to write, or that was mounted anew.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.checkpoint import RolledBack
from patchyard.domain.errors import PatchyardError
from patchyard.domain.events import Noted
from patchyard.domain.machine import UNSYNCED, has_lost_writes
from patchyard.domain.meanings import restored
from patchyard.domain.plan import Phase
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.recovery import CONFINED, reaches_out
from patchyard.engine.sites import general_walls
from patchyard.engine.stopping import hush

RESTARTED = "the machine restarted, or its disk was mounted anew"
FAILED = "the disk failed to write"
LOST = (
    "{}, while this plan was at work: what its last calls wrote may not have"
    " reached the disk, and cannot be done again by itself"
)


async def doubt(equipment: Equipment, ledger: Ledger) -> str:
    """Return why the files of a plan at work may be older than its journal; empty: they are not."""
    state = ledger.state
    if state.workspace is None or state.phase != Phase.EXECUTE:
        return ""
    if state.restoring or state.steered.is_stale:
        return ""
    if state.failure is not None and UNSYNCED in state.failure.details:
        return FAILED
    is_old = await equipment.workspaces.outlived(restored(WorkspaceRef, state.workspace))
    return RESTARTED if is_old else ""


async def after_restart(equipment: Equipment, ledger: Ledger) -> None:
    """Go back to the last checkpoint, files and conversation, where the machine restarted since.

    Where calls can reach beyond the workspace nothing is done again, and the plan says so.
    """
    state = ledger.state
    why = await doubt(equipment, ledger)
    if not why or state.workspace is None:
        return
    spec = state.known
    is_confined = general_walls(spec) in CONFINED and not reaches_out(spec)
    own = [m for m in state.checkpoints if m.past.attempt_starts == state.attempt_starts]
    if is_confined and own:  # one of an attempt that was given up leads back to that
        last = own[-1]
        await hush(equipment, ledger, why)
        await ledger.record(
            RolledBack(
                checkpoint_id=last.checkpoint_id,
                version=last.version,
                reason=why,
                is_repeat=True,
            )
        )
        return
    if state.tool_calls:
        await ledger.record(Noted(text=LOST.format(why)))
    await equipment.workspaces.accept(restored(WorkspaceRef, state.workspace))


@asynccontextmanager
async def distrusting(equipment: Equipment, ledger: Ledger) -> AsyncIterator[None]:
    """Note beside the files where a disk failed under them; the journal may lie on it too.

    The next life goes back to the last checkpoint then: the kernel tells of such a loss once.
    """
    try:
        yield
    except (PatchyardError, OSError) as error:
        known = ledger.state.workspace
        if known is not None and has_lost_writes(error):
            await equipment.workspaces.distrust(restored(WorkspaceRef, known))
        raise


__all__ = ["FAILED", "LOST", "RESTARTED", "after_restart", "distrusting", "doubt"]
