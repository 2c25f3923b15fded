"""What a restart of the machine means for a plan: its files may be older than its journal.

So does a disk that failed and was mounted anew.
"""

from patchyard.contracts.workspace import Checkpointing, WorkspaceRef
from patchyard.domain.checkpoint import RolledBack
from patchyard.domain.codec import from_json
from patchyard.domain.events import Noted
from patchyard.domain.plan import Phase
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.recovery import CONFINED, reaches_out
from patchyard.engine.sites import general_walls
from patchyard.engine.stopping import hush

RESTARTED = "the machine restarted, or its disk was mounted anew"
UNSYNCED = (
    f"{RESTARTED}, while this plan was at work: what its last calls wrote may not have"
    " reached the disk, and cannot be done again by itself"
)


async def after_restart(equipment: Equipment, ledger: Ledger) -> None:
    """Go back to the last checkpoint, files and conversation, where the machine restarted since.

    Where calls can reach beyond the workspace nothing is done again, and the plan says so.
    """
    state, workspaces = ledger.state, equipment.workspaces
    if state.workspace is None or state.phase != Phase.EXECUTE:
        return
    if not isinstance(workspaces, Checkpointing):
        return
    workspace = from_json(WorkspaceRef, state.workspace)
    if state.restoring or state.steered.is_stale or not await workspaces.outlived(workspace):
        return
    spec = state.known
    is_confined = general_walls(spec) in CONFINED and not reaches_out(spec)
    own = [m for m in state.checkpoints if m.past.attempt_starts == state.attempt_starts]
    if is_confined and own:  # one of an attempt that was given up leads back to that
        last = own[-1]
        await hush(equipment, ledger, RESTARTED)
        await ledger.record(
            RolledBack(
                checkpoint_id=last.checkpoint_id,
                version=last.version,
                reason=RESTARTED,
                is_repeat=True,
            )
        )
        return
    if state.tool_calls:
        await ledger.record(Noted(text=UNSYNCED))
    await workspaces.accept(workspace)


__all__ = ["RESTARTED", "UNSYNCED", "after_restart"]
