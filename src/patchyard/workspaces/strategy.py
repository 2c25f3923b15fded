"""What every strategy does alike: one folder a workspace, work in threads, our own capture."""

import abc
import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchyard.clients.boot import boot_id
from patchyard.clients.filesystems import is_same_mount, mount_id
from patchyard.clients.mounts import is_mounted, unmount
from patchyard.clients.reader import Reader
from patchyard.contracts.blobs import Blobs
from patchyard.contracts.workspace import CallWindow, WorkspaceRef, never
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import Unavailable
from patchyard.domain.manifest import Delta, Manifest
from patchyard.domain.pooling import relocated
from patchyard.toolbox.footing import Footing
from patchyard.workspaces import materials
from patchyard.workspaces.bulk import Bulk, carried
from patchyard.workspaces.capture import Capture
from patchyard.workspaces.ignores import Ignores
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.rebuilding import Rebuilding, swap_in, tidy
from patchyard.workspaces.sight import Sight, Tracked
from patchyard.workspaces.survey import Known, Survey


class Strategy(abc.ABC):
    """contracts.workspace.Workspaces but for how a tree is filled, read and kept.

    `folder` holds one folder a workspace: `root` is the tree, `own` (0700) what only we see.
    """

    strategy: str

    def __init__(self, trees: GitTrees, folder: Path) -> None:
        """Take the trees and the folder for workspaces."""
        self._trees = trees
        self._folder = folder
        self._judged: dict[str, dict[str, bool]] = {}  # which folders are bulk, by workspace

    async def create(
        self,
        base: Base,
        *,
        workspace_id: str,
        layers: Sequence[Path] = (),
        tree: str | None = None,
        folders: Sequence[str] = (),
    ) -> WorkspaceRef:
        """Make a workspace; see contracts.workspace."""

        def made() -> WorkspaceRef:  # all in one thread: each change of it costs 0.1 ms
            ref = self._create(base, workspace_id, tuple(layers))
            if tree is not None and tree != base.tree:
                materials.turn_into(self._trees, base, tree, Path(ref.root))
            materials.make_folders(ref, folders)
            _accept(ref)
            return ref

        return await asyncio.to_thread(made)

    async def open(self, base: Base, ref: WorkspaceRef) -> Path:
        """Return its root, ready to be used. Raises Unavailable when what was written is gone."""
        return await asyncio.to_thread(self._reopen, base, ref)

    async def capture(
        self,
        base: Base,
        ref: WorkspaceRef,
        *,
        windows: Sequence[CallWindow] = (),
        is_stopped: Callable[[], bool] = never,
    ) -> ChangeSet:
        """Read what was written with our own reader and store what changed."""
        return await asyncio.to_thread(self._capture, base, ref, tuple(windows), is_stopped)

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
        """Keep what was written; see contracts.workspace.Checkpointing."""
        bulk = self._bulk(base, ref, is_kept=has_bulk)
        return await asyncio.to_thread(
            self._checkpoint, base, ref, previous, blobs, bulk, is_stopped
        )

    async def restore(
        self, base: Base, ref: WorkspaceRef, manifest: Manifest, *, blobs: Blobs
    ) -> Sequence[str]:
        """Bring it back; see contracts.workspace.Checkpointing."""
        lost = await asyncio.to_thread(self._restore, base, ref, manifest, blobs)
        await self.accept(ref)
        return lost

    async def outlived(self, ref: WorkspaceRef) -> bool:
        """Whether it is of an earlier boot or mount; see contracts.workspace.Checkpointing."""
        try:
            boot, *mount = _boot_file(ref).read_text(encoding="ascii").splitlines()
        except (FileNotFoundError, ValueError):  # not there, or cut off
            return True
        here = mount_id(_boot_file(ref).parent)
        return boot != boot_id() or not all(is_same_mount(each, here) for each in mount)

    async def distrust(self, ref: WorkspaceRef) -> None:
        """Say that it is of no boot; a disk that takes not even that is mounted anew."""
        with contextlib.suppress(OSError):
            _boot_file(ref).unlink()

    async def accept(self, ref: WorkspaceRef) -> None:
        """Say that it is of this boot and mount; a word lost with the power needs no sync."""
        _accept(ref)

    async def layer(self, ref: WorkspaceRef) -> Path | None:
        """Return a folder that holds just what was written since the start."""
        return await asyncio.to_thread(self._layer, ref)

    async def close(self, ref: WorkspaceRef) -> None:
        """Let go of it and keep what was written."""
        await asyncio.to_thread(self._close, Path(ref.root))

    async def remove(self, ref: WorkspaceRef) -> None:
        """Delete it."""
        await asyncio.to_thread(self._remove, Path(ref.root))

    async def rename(self, ref: WorkspaceRef, workspace_id: str) -> WorkspaceRef:
        """Give it another name; see contracts.workspace.Renaming."""
        return await asyncio.to_thread(self._rename, ref, workspace_id)

    async def discard(self, workspace_id: str) -> None:
        """Delete what has this name."""
        await asyncio.to_thread(self._remove, self._folder / workspace_id / "root")

    def _create(self, base: Base, workspace_id: str, layers: Sequence[Path]) -> WorkspaceRef:
        root = self._folder / workspace_id / "root"
        self._remove(root)  # what a killed engine left under this name
        materials.make_place(root.parent, self._trees.home)
        details = self._fill(base, root, [*reversed(layers)])
        return WorkspaceRef(
            workspace_id=workspace_id,
            strategy=self.strategy,
            root=str(root),
            owner_uid=self._trees.uid,
            owner_gid=self._trees.gid,
            details={**details, "layers": [str(layer) for layer in reversed(layers)]},
        )

    def _reopen(self, base: Base, ref: WorkspaceRef) -> Path:
        written = self._written(ref)
        if not written.exists():
            tidy(written, Path(ref.root).parent / "own")
        root = self._open(base, ref)
        _sweep(root)
        return root

    def _capture(
        self,
        base: Base,
        ref: WorkspaceRef,
        windows: Sequence[CallWindow],
        is_stopped: Callable[[], bool],
    ) -> ChangeSet:
        git = self._trees.git_of(base)
        tracked = self._trees.tracked(base)
        layers = tuple(Path(folder) for folder in ref.details["layers"])
        with (
            materials.reading(ref.root),
            Reader(self._written(ref)) as reader,
            Ignores(git, base, tracked.entries) as ignores,
        ):
            sight = self._walk(ref, reader, tracked, ignores)
            capture = Capture(
                git=git,
                base=base,
                tracked=tracked,
                reader=reader,
                lower=layers,
                is_stopped=is_stopped,
            )
            return capture.finish(sight, windows)

    def _checkpoint(
        self,
        base: Base,
        ref: WorkspaceRef,
        previous: Manifest,
        blobs: Blobs,
        bulk: Bulk,
        is_stopped: Callable[[], bool],
    ) -> Delta:
        with blobs.writing() as writer:
            survey = Survey(
                previous=previous,
                writer=writer,
                known=self._known(base, ref),
                bulk=bulk,
                is_stopped=is_stopped,
            )
            return survey.of(self._written(ref))

    def _bulk(self, base: Base, ref: WorkspaceRef, *, is_kept: bool) -> Bulk:
        def is_ignored(path: str) -> bool:
            tracked = self._trees.tracked(base)
            if tracked.is_folder(path):
                return False
            with Ignores(self._trees.git_of(base), base, tracked.entries) as ignores:
                return path in ignores.among((), [path])

        judged = self._judged.setdefault(ref.workspace_id, {})
        return Bulk(is_ignored, judged, is_kept=is_kept)

    def _restore(
        self, base: Base, ref: WorkspaceRef, manifest: Manifest, blobs: Blobs
    ) -> Sequence[str]:
        written, root = self._written(ref), Path(ref.root)
        self._close(root)
        if written.exists():
            tidy(written, root.parent / "own")
        taken = carried(written, manifest)
        rebuilding = Rebuilding(
            manifest,
            blobs,
            owner=(ref.owner_uid, ref.owner_gid),
            origins=self._origins(base, ref),
            carried=taken,
        )
        if not (root.parent / "own").is_dir():  # even its name was lost with the power
            materials.make_place(root.parent, self._trees.home)
        swap_in(written, root.parent / "own", rebuilding.make, taken)
        self._note_again(base, ref)
        self._open(base, ref)
        return rebuilding.lost

    def _origins(self, _base: Base, _ref: WorkspaceRef) -> tuple[Path, ...]:
        """Return the trees of ours that a manifest's files may be copies of."""
        return ()

    def _known(self, _base: Base, _ref: WorkspaceRef) -> Known:
        """Return who says which origin a file is a copy of."""
        return _of_no_origin

    def _rename(self, ref: WorkspaceRef, workspace_id: str) -> WorkspaceRef:
        """Move its folder: what is mounted in it, here or in an environment, moves along."""
        old, new = Path(ref.root).parent, self._folder / workspace_id
        if new.exists():  # what a killed engine left, in whatever way it was made
            if is_mounted(new / "root"):
                unmount(new / "root")
            materials.delete(new)
        old.rename(new)
        return replace(
            ref,
            workspace_id=workspace_id,
            root=str(new / "root"),
            details=relocated(ref.details, str(old), str(new)),
        )

    def _remove(self, root: Path) -> None:
        self._close(root)
        materials.delete(root.parent)

    @abc.abstractmethod
    def _fill(self, base: Base, root: Path, layers: Sequence[Path]) -> Mapping[str, Any]:
        """Make the tree at `root`, `layers` (topmost first) over the base; return its details."""

    @abc.abstractmethod
    def _open(self, base: Base, ref: WorkspaceRef) -> Path:
        """See open."""

    @abc.abstractmethod
    def _note_again(self, base: Base, ref: WorkspaceRef) -> None:
        """Make what is noted beside the tree, where it was lost with a deleted workspace."""

    @abc.abstractmethod
    def _close(self, root: Path) -> None:
        """See close. Idempotent."""

    @abc.abstractmethod
    def _layer(self, ref: WorkspaceRef) -> Path:
        """See layer."""

    @abc.abstractmethod
    def _written(self, ref: WorkspaceRef) -> Path:
        """Return the folder that a capture reads."""

    @abc.abstractmethod
    def _walk(self, ref: WorkspaceRef, reader: Reader, tracked: Tracked, ignores: Ignores) -> Sight:
        """Return what differs from the base."""


def _sweep(root: Path) -> None:
    """Delete what a killed engine was bringing home; who reads a closed root is told of that."""
    with contextlib.suppress(PermissionError), contextlib.closing(Footing(str(root))) as footing:
        footing.sweep()


def _accept(ref: WorkspaceRef) -> None:
    file = _boot_file(ref)
    file.write_text(f"{boot_id()}\n{mount_id(file.parent)}\n", encoding="ascii")


def _boot_file(ref: WorkspaceRef) -> Path:
    return Path(ref.root).parent / "own" / "boot"


def _of_no_origin(_path: str, _descriptor: int, _status: os.stat_result) -> str:
    return ""


def deleted(ref: WorkspaceRef) -> Unavailable:
    """Return the error for a workspace that somebody deleted."""
    name = ref.workspace_id
    return Unavailable(
        f"the workspace of plan {name} was deleted ({Path(ref.root).parent}):"
        " what its calls wrote is lost",
        hint=f"`agents plan diff {name}` shows what was captured before, if anything was;"
        " begin the task anew with `agents run` or `agents plan use`",
    )


__all__ = ["Strategy", "deleted"]
