"""Workspaces as private copies of our own checkouts: for engines without root or overlays."""

import asyncio
import contextlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from patchyard.clients.placer import Placer
from patchyard.clients.reader import Reader
from patchyard.contracts.workspace import CallWindow, WorkspaceRef
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import EnvironmentBroken
from patchyard.workspaces import materials, whole
from patchyard.workspaces.bases import run
from patchyard.workspaces.capture import Capture
from patchyard.workspaces.ignores import Ignores
from patchyard.workspaces.pinned import GitTrees

GONE = ".patchyard-gone"  # in a layer: what setup deleted, NUL between the paths


class CopyWorkspaces:
    """contracts.workspace.Workspaces by copying (reflinks where the file system has them).

    `folder` holds one folder a workspace: `root` is the tree, `own` (0700) what we noted of it.
    """

    strategy = "copy"

    def __init__(self, trees: GitTrees, folder: Path) -> None:
        """Take the trees and the folder for workspaces."""
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
        """Make a workspace; see contracts.workspace."""
        ref = await asyncio.to_thread(self._create, base, workspace_id, tuple(layers), tree)
        await asyncio.to_thread(materials.make_folders, ref, folders)
        return ref

    async def open(self, ref: WorkspaceRef) -> Path:
        """Return its root. Raises EnvironmentBroken when it is gone."""
        root = Path(ref.root)
        if not await asyncio.to_thread(root.is_dir):
            raise EnvironmentBroken(f"the workspace {root} is gone", hint="retry the plan")
        return root

    async def capture(
        self, base: Base, ref: WorkspaceRef, *, windows: Sequence[CallWindow] = ()
    ) -> ChangeSet:
        """Walk the tree and store what changed."""
        return await asyncio.to_thread(self._capture, base, ref, tuple(windows))

    async def layer(self, ref: WorkspaceRef) -> Path | None:
        """Copy what was written since the start into a folder of its own and return that."""
        return await asyncio.to_thread(self._layer, ref)

    async def close(self, ref: WorkspaceRef) -> None:
        """A copy is not mounted; there is nothing to do."""

    async def remove(self, ref: WorkspaceRef) -> None:
        """Delete it."""
        await asyncio.to_thread(materials.delete, Path(ref.root).parent)

    async def discard(self, workspace_id: str) -> None:
        """Delete what has this name."""
        await asyncio.to_thread(materials.delete, self._folder / workspace_id)

    def _create(
        self, base: Base, workspace_id: str, layers: tuple[Path, ...], tree: str | None
    ) -> WorkspaceRef:
        trees = self._trees
        checkout = trees.bases.checkout(trees.git_of(base), base.tree)
        synthetic = trees.synthetic_git(base)
        materials.prepare_folder(self._folder)
        place = self._folder / workspace_id
        materials.delete(place)  # what a killed engine left under this name
        root, own = place / "root", place / "own"
        materials.make_place(place, own)
        copy_tree(checkout, root)
        for layer in layers:
            _lay(layer, root)
        mounts = self._give_git(synthetic, root)
        (own / "notes.json").write_text(json.dumps(whole.note(root)))
        if tree is not None and tree != base.tree:
            materials.turn_into(trees, base, tree, root)
        return WorkspaceRef(
            workspace_id=workspace_id,
            strategy=self.strategy,
            root=str(root),
            owner_uid=trees.uid,
            owner_gid=trees.gid,
            details={
                "notes": str(own / "notes.json"),
                "layers": [str(layer) for layer in reversed(layers)],
                "mounts": mounts,
            },
        )

    def _give_git(self, synthetic: Path, root: Path) -> list[list[str]]:
        """Put the agent's `.git` in; return what of ours has to be seen read-only inside.

        Under root the packs are copied, since the agent is somebody else who cannot enter the home.
        Else they are borrowed from their place, where the agent's own user could write anyway.
        """
        if os.geteuid() == 0:
            copy_tree(synthetic / ".git", root / ".git")
            return []
        objects = synthetic / ".git" / "objects"
        shutil.copytree(
            synthetic / ".git", root / ".git", symlinks=True, ignore=_without(objects / "pack")
        )
        alternates = root / ".git" / "objects" / "info" / "alternates"
        alternates.write_bytes(os.fsencode(objects) + b"\n")
        return [[str(objects), str(objects)]]

    def _capture(self, base: Base, ref: WorkspaceRef, windows: tuple[CallWindow, ...]) -> ChangeSet:
        git = self._trees.git_of(base)
        tracked = self._trees.tracked(base)
        layers = tuple(Path(folder) for folder in ref.details["layers"])
        with (
            materials.reading(ref.root),
            Reader(ref.root) as reader,
            Ignores(git, base, tracked.entries) as ignores,
        ):
            notes = json.loads(Path(ref.details["notes"]).read_text())
            sight = whole.walk(reader, tracked, ignores, notes)
            capture = Capture(git=git, base=base, tracked=tracked, reader=reader, lower=layers)
            return capture.finish(sight, windows)

    def _layer(self, ref: WorkspaceRef) -> Path:
        notes: whole.Notes = json.loads(Path(ref.details["notes"]).read_text())
        now = whole.note(Path(ref.root))
        layer = Path(ref.details["notes"]).parent / "layer"
        if layer.exists():
            run("rm", "-rf", "--", str(layer))
        layer.mkdir(mode=0o755)
        root = Path(ref.root)
        for path, print_now in now.items():
            if print_now != notes.get(path) and path != GONE:
                _keep(root, layer, path)
        gone = sorted(set(notes) - set(now))
        (layer / GONE).write_bytes(b"".join(os.fsencode(path) + b"\0" for path in gone))
        return layer


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder of ours with modes, times and owners; blocks are shared where that can be."""
    run("cp", "-a", "--reflink=auto", "-T", "--", str(source), str(target))


def _without(left_out: Path) -> Callable[[str, list[str]], list[str]]:
    def ignore(folder: str, names: list[str]) -> list[str]:
        return names if Path(folder) == left_out else []

    return ignore


def _keep(root: Path, layer: Path, path: str) -> None:
    """Copy one entry into the layer, the folders above it made."""
    source, target = root / path, layer / path
    status = source.lstat()
    target.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISDIR(status.st_mode):
        target.mkdir(exist_ok=True)
    elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
        shutil.copy2(source, target, follow_symlinks=False)
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)


def _lay(layer: Path, root: Path) -> None:
    """Put a kept layer over a fresh copy."""
    placer = Placer(root)
    for raw in (layer / GONE).read_bytes().split(b"\0")[:-1]:
        with contextlib.suppress(OSError):  # a folder, or gone with one
            placer.remove(os.fsdecode(raw))
    run("cp", "-a", "--reflink=auto", "--remove-destination", "-T", "--", str(layer), str(root))
    (root / GONE).unlink()


__all__ = ["GONE", "CopyWorkspaces", "copy_tree"]
