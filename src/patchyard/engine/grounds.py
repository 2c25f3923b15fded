"""Trees for one purpose: made for it and gone after it, whatever happens in between."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from patchyard.contracts.workspace import WorkspaceRef, Workspaces
from patchyard.domain.changeset import Base
from patchyard.engine.answers import whole

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
) -> AsyncIterator[WorkspaceRef]:
    """Lend a tree of `base`, or of `tree` over it; after the block it is gone."""
    create = workspaces.create
    try:
        yield await whole(
            create(base, workspace_id=name, layers=layers, tree=tree, folders=folders)
        )
    finally:
        await workspaces.discard(name)


__all__ = ["PURPOSES", "ground", "ground_name"]
