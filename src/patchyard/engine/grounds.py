"""The trees of a plan: its own one, and those made for one purpose and gone after it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

from patchyard.contracts.workspace import WorkspaceRef, Workspaces
from patchyard.domain.changeset import Base
from patchyard.domain.codec import in_full
from patchyard.domain.events import WorkspaceCreated
from patchyard.domain.meanings import restored
from patchyard.engine.adopting import from_pool, let_go
from patchyard.engine.answers import whole
from patchyard.engine.checkpoints import finish_restore
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger

Ground = Callable[[], Awaitable[WorkspaceRef]]  # gives the tree, made when it is first needed

Sole = Callable[[], AbstractAsyncContextManager[object]]

PURPOSES = ("plan", "proof", "setup")


def ground_name(plan_id: str, purpose: str) -> str:
    """Return the name of a plan's tree for `purpose`: the same in each life, so that none stays."""
    return f"{plan_id}-{purpose}"


@asynccontextmanager
async def ground(
    workspaces: Workspaces,
    base: Base,
    *,
    name: str,
    layers: Sequence[Path] = (),
    tree: str | None = None,
    folders: Sequence[str] = (),
    sole: Sole = nullcontext,
) -> AsyncIterator[WorkspaceRef]:
    """Lend a tree of `base`, or of `tree` over it; after the block it is gone.

    `sole` is held meanwhile: another owner of the plan may be using a tree of that name.
    """
    create = workspaces.create
    try:
        async with sole():
            workspace = await whole(
                create(base, workspace_id=name, layers=layers, tree=tree, folders=folders)
            )
        yield workspace
    finally:
        async with sole():
            await whole(workspaces.discard(name))


@asynccontextmanager
async def reading_ground(
    equipment: Equipment, ledger: Ledger, base: Base, *, layers: Sequence[Path] = ()
) -> AsyncIterator[Ground]:
    """Lend a tree for who only reads, made for the first call; after the block it is gone."""
    workspaces = equipment.workspaces
    name = ground_name(ledger.plan_id, "plan")
    folders = ledger.state.known.include
    made: list[WorkspaceRef] = []

    async def give() -> WorkspaceRef:
        if not made:
            creating = workspaces.create(base, workspace_id=name, layers=layers, folders=folders)
            async with ledger.sole():
                made.append(await whole(creating))
        return made[0]

    try:
        yield give
    finally:
        async with ledger.sole():
            await whole(workspaces.discard(name))  # an earlier life may have made it


@asynccontextmanager
async def working_ground(
    equipment: Equipment, ledger: Ledger, base: Base, layers: Sequence[Path]
) -> AsyncIterator[WorkspaceRef]:
    """Mount the plan's own tree, made now or in an earlier life; it is kept after the block."""
    known = ledger.state.workspace
    workspaces = equipment.workspaces
    if known is not None:
        workspace = restored(WorkspaceRef, known)
        if not ledger.state.restoring:  # else what is there does not count, and it is opened after
            async with ledger.sole():
                opening = workspaces.open(base, workspace)
                await whole(opening, undo=lambda _: workspaces.close(workspace))
    else:
        workspace = await from_pool(equipment, ledger, base, layers) or await _made(
            workspaces, ledger, base, layers
        )
    await finish_restore(equipment, ledger, workspace)  # of a new fork: the files of its parent
    try:
        yield workspace
    finally:
        await let_go(equipment, ledger)
        async with ledger.sole():
            await whole(workspaces.close(workspace))


async def _made(
    workspaces: Workspaces, ledger: Ledger, base: Base, layers: Sequence[Path]
) -> WorkspaceRef:
    """Make the plan's own tree; none is left that the journal does not know."""
    folders = ledger.state.known.include
    create = workspaces.create
    async with ledger.sole():
        creating = create(base, workspace_id=ledger.plan_id, layers=layers, folders=folders)
        workspace = await whole(creating, undo=workspaces.remove)
        try:
            await ledger.record(WorkspaceCreated(workspace=in_full(workspace)))
        except BaseException:
            await workspaces.remove(workspace)
            raise
    return workspace


def given(workspace: WorkspaceRef) -> Ground:
    """Return the ground that is there already."""

    async def give() -> WorkspaceRef:
        return workspace

    return give


__all__ = [
    "PURPOSES",
    "Ground",
    "Sole",
    "given",
    "ground",
    "ground_name",
    "reading_ground",
    "working_ground",
]
