"""Workspaces as overlay mounts over our own checkouts. Needs root; nothing is copied."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from patchyard.clients.mounts import is_mounted, mount_overlay, unmount
from patchyard.clients.reader import Reader
from patchyard.contracts.workspace import CallWindow, WorkspaceRef
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.workspaces import materials, upper
from patchyard.workspaces.capture import Capture
from patchyard.workspaces.ignores import Ignores
from patchyard.workspaces.pinned import GitTrees


class OverlayWorkspaces:
    """contracts.workspace.Workspaces by overlayfs, mounted once per plan by a root engine.

    `folder` holds one folder a workspace: `root` is the mount, `own` (0700) upper and work.
    """

    strategy = "overlay"

    def __init__(self, trees: GitTrees, folder: Path) -> None:
        """Take the trees and the folder for plan mounts."""
        self._trees = trees
        self._folder = folder

    async def create(
        self,
        base: Base,
        *,
        workspace_id: str,
        layers: Sequence[Path] = (),
        tree: str | None = None,
        folders: Sequence[str] = (),
    ) -> WorkspaceRef:
        """Make and mount a workspace; see contracts.workspace."""
        ref = await asyncio.to_thread(self._create, base, workspace_id, tuple(layers), tree)
        await asyncio.to_thread(materials.make_folders, ref, folders)
        return ref

    async def open(self, ref: WorkspaceRef) -> Path:
        """Mount it again when it is not, and return its root."""
        return await asyncio.to_thread(self._open, ref)

    async def capture(
        self, base: Base, ref: WorkspaceRef, *, windows: Sequence[CallWindow] = ()
    ) -> ChangeSet:
        """Read the upper folder and store what changed."""
        return await asyncio.to_thread(self._capture, base, ref, tuple(windows))

    async def layer(self, ref: WorkspaceRef) -> Path | None:
        """Return the upper folder."""
        return Path(ref.details["upper"])

    async def close(self, ref: WorkspaceRef) -> None:
        """Unmount it and keep what was written."""
        await asyncio.to_thread(unmount, Path(ref.root))

    async def remove(self, ref: WorkspaceRef) -> None:
        """Unmount and delete it."""
        await asyncio.to_thread(self._remove, Path(ref.root))

    async def discard(self, workspace_id: str) -> None:
        """Unmount and delete what has this name."""
        await asyncio.to_thread(self._remove, self._folder / workspace_id / "root")

    def _create(
        self, base: Base, workspace_id: str, layers: tuple[Path, ...], tree: str | None
    ) -> WorkspaceRef:
        trees = self._trees
        place = self._folder / workspace_id
        own = place / "own"
        lower = [
            *reversed(layers),
            trees.synthetic_git(base),
            trees.bases.checkout(trees.git_of(base), base.tree),
        ]
        ref = WorkspaceRef(
            workspace_id=workspace_id,
            strategy=self.strategy,
            root=str(place / "root"),
            owner_uid=trees.uid,
            owner_gid=trees.gid,
            details={
                "upper": str(own / "upper"),
                "work": str(own / "work"),
                "lower": [str(folder) for folder in lower],
                "layers": [str(folder) for folder in reversed(layers)],
            },
        )
        materials.prepare_folder(self._folder)
        self._remove(place / "root")  # what a killed engine left under this name
        materials.make_place(place, own)
        for folder in (own / "upper", own / "work", place / "root"):
            folder.mkdir()
            folder.chmod(0o755)
        os.chown(own / "upper", trees.uid, trees.gid)
        self._mount(ref)
        if tree is not None and tree != base.tree:
            materials.turn_into(trees, base, tree, Path(ref.root))
        return ref

    def _mount(self, ref: WorkspaceRef) -> None:
        details = ref.details
        try:
            mount_overlay(
                Path(ref.root),
                lower=[Path(folder) for folder in details["lower"]],
                upper=Path(details["upper"]),
                work=Path(details["work"]),
            )
        except OSError as error:
            raise EnvironmentUnavailable(
                f"the overlay at {ref.root} cannot be mounted: {error.strerror}",
                hint="choose workspace strategy copy, or a home on a local file system",
            ) from error

    def _open(self, ref: WorkspaceRef) -> Path:
        root = Path(ref.root)
        if not is_mounted(root):
            self._mount(ref)
        return root

    def _capture(self, base: Base, ref: WorkspaceRef, windows: tuple[CallWindow, ...]) -> ChangeSet:
        git = self._trees.git_of(base)
        tracked = self._trees.tracked(base)
        layers = tuple(Path(folder) for folder in ref.details["layers"])
        with (
            materials.reading(ref.root),
            Reader(ref.details["upper"]) as reader,
            Ignores(git, base, tracked.entries) as ignores,
        ):
            sight = upper.walk(reader, tracked, ignores)
            capture = Capture(git=git, base=base, tracked=tracked, reader=reader, lower=layers)
            return capture.finish(sight, windows)

    def _remove(self, root: Path) -> None:
        unmount(root)
        if not is_mounted(root):
            materials.delete(root.parent)


__all__ = ["OverlayWorkspaces"]
