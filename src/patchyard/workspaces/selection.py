"""Which strategy works on this machine: an overlay where root can mount one, else a copy."""

import asyncio
import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from patchyard.clients.mounts import is_mounted, leave_mounts, mount_overlay, unmount
from patchyard.contracts.blobs import Blobs
from patchyard.contracts.workspace import CallWindow, CheckpointingWorkspaces, WorkspaceRef, never
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import UnknownName
from patchyard.domain.manifest import Delta, Manifest
from patchyard.workspaces.copy import CopyWorkspaces
from patchyard.workspaces.overlay import OverlayWorkspaces
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.strategy import Strategy

STATE = Path("/var/lib/patchyard")
VACANT = ".vacant"
STRATEGIES = ("auto", "copy", "overlay")


def select_workspaces(
    trees: GitTrees, folder: Path, *, strategy: str = "auto"
) -> CheckpointingWorkspaces:
    """Return the strategy that `strategy` names; `auto` takes an overlay where one mounts.

    Raises UnknownName for another word.
    """
    if strategy not in STRATEGIES:
        raise UnknownName.among("workspace strategy", strategy, STRATEGIES)
    if strategy == "overlay":
        return OverlayWorkspaces(trees, folder)
    return CopyWorkspaces(trees, folder) if strategy == "copy" else AutoWorkspaces(trees, folder)


class AutoWorkspaces:
    """contracts.workspace.Workspaces: new ones as this machine can, those there are as they are.

    What works is tried when the first is made, and not before: a disk may be full or read-only.
    """

    def __init__(self, trees: GitTrees, folder: Path) -> None:
        """Take the trees and the folder for workspaces."""
        self._folder = folder
        self._kinds: Mapping[str, Strategy] = {
            "copy": CopyWorkspaces(trees, folder),
            "overlay": OverlayWorkspaces(trees, folder),
        }

    async def create(
        self,
        base: Base,
        *,
        workspace_id: str,
        layers: Sequence[Path] = (),
        tree: str | None = None,
        folders: Sequence[str] = (),
    ) -> WorkspaceRef:
        """Make one; see contracts.workspace."""
        is_overlay = await asyncio.to_thread(lambda: can_overlay(_existing(self._folder)))
        made_by = self._kinds["overlay" if is_overlay else "copy"]
        return await made_by.create(
            base, workspace_id=workspace_id, layers=layers, tree=tree, folders=folders
        )

    async def open(self, base: Base, ref: WorkspaceRef) -> Path:
        """See contracts.workspace."""
        return await self._of(ref).open(base, ref)

    async def capture(
        self,
        base: Base,
        ref: WorkspaceRef,
        *,
        windows: Sequence[CallWindow] = (),
        is_stopped: Callable[[], bool] = never,
    ) -> ChangeSet:
        """See contracts.workspace."""
        return await self._of(ref).capture(base, ref, windows=windows, is_stopped=is_stopped)

    async def layer(self, ref: WorkspaceRef) -> Path | None:
        """See contracts.workspace."""
        return await self._of(ref).layer(ref)

    async def close(self, ref: WorkspaceRef) -> None:
        """See contracts.workspace."""
        await self._of(ref).close(ref)

    async def remove(self, ref: WorkspaceRef) -> None:
        """See contracts.workspace."""
        await self._of(ref).remove(ref)

    async def rename(self, ref: WorkspaceRef, workspace_id: str) -> WorkspaceRef:
        """See contracts.workspace.Renaming."""
        return await self._of(ref).rename(ref, workspace_id)

    async def discard(self, workspace_id: str) -> None:
        """See contracts.workspace."""
        is_overlay = is_mounted(self._folder / workspace_id / "root")
        await self._kinds["overlay" if is_overlay else "copy"].discard(workspace_id)

    async def checkpoint(
        self,
        base: Base,
        ref: WorkspaceRef,
        previous: Manifest,
        *,
        blobs: Blobs,
        has_bulk: bool = False,
        is_stopped: Callable[[], bool] = never,
    ) -> Delta:
        """See contracts.workspace.Checkpointing."""
        return await self._of(ref).checkpoint(
            base, ref, previous, blobs=blobs, has_bulk=has_bulk, is_stopped=is_stopped
        )

    async def restore(
        self, base: Base, ref: WorkspaceRef, manifest: Manifest, *, blobs: Blobs
    ) -> Sequence[str]:
        """See contracts.workspace.Checkpointing."""
        return await self._of(ref).restore(base, ref, manifest, blobs=blobs)

    async def outlived(self, ref: WorkspaceRef) -> bool:
        """See contracts.workspace.Checkpointing."""
        return await self._of(ref).outlived(ref)

    async def distrust(self, ref: WorkspaceRef) -> None:
        """See contracts.workspace.Checkpointing."""
        await self._of(ref).distrust(ref)

    async def accept(self, ref: WorkspaceRef) -> None:
        """See contracts.workspace.Checkpointing."""
        await self._of(ref).accept(ref)

    def _of(self, ref: WorkspaceRef) -> Strategy:
        if ref.strategy not in self._kinds:
            raise UnknownName.among("workspace strategy", ref.strategy, self._kinds)
        return self._kinds[ref.strategy]


def plan_folder(home: Path) -> Path:
    """Return where workspaces lie: under the home, or where root's agent can enter.

    The home is 0700; a root engine's agent has another user ID and may have to walk to its root.
    """
    if os.geteuid() != 0:
        return home / "plans"
    name = hashlib.sha256(os.fsencode(home.absolute())).hexdigest()[:16]
    return STATE / f"plans-{name}"


def vacant_folder(folder: Path) -> Path:
    """Return a folder beside the workspaces that is empty, made where it is missing."""
    place = folder / VACANT
    place.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    place.mkdir(mode=0o755, exist_ok=True)
    return place


def _existing(folder: Path) -> Path:
    while not folder.is_dir():
        folder = folder.parent
    return folder


@functools.cache
def can_overlay(folder: Path) -> bool:
    """Whether an overlay can be mounted with its upper folder below `folder`; really tried.

    Raises OSError where nothing can be tried, for want of room for example.
    """
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=folder) as made:
        place = Path(made)
        for name in ("lower", "upper", "work", "root"):
            (place / name).mkdir()
        with ThreadPoolExecutor(1) as own:
            return own.submit(_mounts, place).result()


def _mounts(place: Path) -> bool:
    """Try it in a mount namespace of this thread, so that a kill leaves nothing mounted."""
    with contextlib.suppress(OSError):
        leave_mounts()
    lower, upper, work = [place / "lower"], place / "upper", place / "work"
    try:
        mount_overlay(place / "root", lower=lower, upper=upper, work=work)
    except OSError:
        return False
    unmount(place / "root")
    return True


__all__ = [
    "STATE",
    "STRATEGIES",
    "VACANT",
    "AutoWorkspaces",
    "can_overlay",
    "plan_folder",
    "select_workspaces",
    "vacant_folder",
]
