"""Ending what is left of a plan's work: environments, open calls, mounts."""

from contextlib import suppress

from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.errors import Conflict, PatchyardError
from patchyard.domain.events import Moved, Noted, ToolCallSettled
from patchyard.domain.meanings import restored
from patchyard.domain.plan import Phase, State
from patchyard.engine.answers import whole
from patchyard.engine.colleagues import count_so_far, is_made
from patchyard.engine.equipment import Equipment
from patchyard.engine.grounds import PURPOSES, ground_name
from patchyard.engine.inquiring import answered_by
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.places import ended
from patchyard.engine.strays import end_strays

CANCELLABLE = frozenset(
    {
        (Phase.STRATEGIZE, State.QUEUED),
        (Phase.STRATEGIZE, State.PROCESSING),
        (Phase.STRATEGIZE, State.COMPLETE),
        (Phase.EXECUTE, State.QUEUED),
        (Phase.EXECUTE, State.PROCESSING),
    }
)


async def stop(equipment: Equipment, ledger: Ledger, reason: str) -> None:
    """End what is left of a plan's work and say that it is cancelled. Idempotent.

    Raises FencedOff, and touches nothing, when another process owns the plan by now.
    """
    await end_strays(equipment, ledger)
    for live in list(ledger.state.environments.values()):
        try:
            await ended(equipment, ledger, live.handle, reason)
        except PatchyardError as error:
            await ledger.record(Noted(text=error.message))  # it stays open, to be ended again
    await hush(equipment, ledger, reason)
    for call_id in list(ledger.state.open_calls):
        await ledger.record(
            ToolCallSettled(
                call_id=call_id, success=False, message="the plan was cancelled", error="CANCELLED"
            )
        )
    async with ledger.sole():
        await whole(_unmount(equipment, ledger))
    state = ledger.state
    if (state.phase, state.state) in CANCELLABLE:
        moved = Moved(phase=state.phase, state=State.CANCELLED, reason=reason)
        await ledger.record(moved)


async def hush(equipment: Equipment, ledger: Ledger, reason: str) -> None:
    """Stop the roles that work for the plan and were not heard; what they used counts."""
    for asked in list(ledger.state.inquiries.open.values()):
        if await is_made(equipment, asked.colleague_id):
            await _stopped(equipment, asked.colleague_id, reason)
        await ledger.record(await answered_by(equipment, asked, error="CANCELLED"))
    looking = ledger.state.colleagues.asked
    if looking is not None and await is_made(equipment, looking.colleague_id):
        await _stopped(equipment, looking.colleague_id, reason)
        await count_so_far(equipment, ledger, looking.colleague_id)


async def _stopped(equipment: Equipment, plan_id: str, reason: str) -> None:
    with suppress(Conflict):  # whoever has it carries it on alone
        async with PlanLifecycleService(equipment).owned(plan_id) as own:
            await stop(equipment, own, reason)


async def _unmount(equipment: Equipment, ledger: Ledger) -> None:
    """Take away the mounts of a life that was killed; the plan's own tree keeps its content."""
    for purpose in PURPOSES:
        await equipment.workspaces.discard(ground_name(ledger.plan_id, purpose))
    if ledger.state.workspace is not None:
        await equipment.workspaces.close(restored(WorkspaceRef, ledger.state.workspace))


__all__ = ["CANCELLABLE", "hush", "stop"]
