"""Checkpoints of one workspace, kept as the engine keeps them, and all that a restore promises."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from laboratory import AGENT, Lab, started
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.changeset import Base
from patchyard.domain.manifest import Delta, Entry, Manifest, applied
from patchyard.stores.blobs import FileBlobs, FileBlobSpaces

__all__ = ["Keeper", "everything", "kept", "names", "own", "stored"]


class Keeper:
    """One workspace whose checkpoints are kept, as the engine keeps them."""

    def __init__(self, lab: Lab, base: Base, ref: WorkspaceRef) -> None:
        self.workspaces = lab.workspaces
        self.blobs = FileBlobSpaces(lab.repo.parent / "blobs").of(ref.workspace_id)
        self.manifest: dict[str, Entry] = {}
        self.base, self.ref = base, ref

    async def keep(self, *, has_bulk: bool = False) -> Delta:
        delta = await self.workspaces.checkpoint(
            self.base, self.ref, self.manifest, blobs=self.blobs, has_bulk=has_bulk
        )
        applied(self.manifest, {**delta.put, **delta.touched}, delta.gone)
        return delta

    async def restore(self, manifest: Manifest) -> Sequence[str]:
        lost = await self.workspaces.restore(self.base, self.ref, manifest, blobs=self.blobs)
        self.manifest = {path: entry._replace(ctime=0) for path, entry in manifest.items()}
        return lost


async def kept(lab: Lab, name: str = "w1") -> tuple[Keeper, Path]:
    """Make a workspace over the usual files, with the first checkpoint."""
    base = await started(lab) if not (lab.repo / "a.txt").exists() else await lab.base()
    ref, root = await lab.workspace(base, name)
    keeper = Keeper(lab, base, ref)
    await keeper.keep()
    return keeper, root


def everything(root: Path) -> dict[str, tuple[object, ...]]:
    """All that a restore promises of each entry: kind, mode, owner, time, names, content."""
    found: dict[str, tuple[object, ...]] = {}
    firsts: dict[int, str] = {}
    for place in sorted([root, *root.rglob("*")]):
        status = place.lstat()
        path = str(place.relative_to(root))
        first = firsts.setdefault(status.st_ino, path) if status.st_nlink > 1 else path
        is_folder = stat.S_ISDIR(status.st_mode)
        found[path] = (
            oct(status.st_mode),
            "" if path.startswith(".git/") else (status.st_uid, status.st_gid),
            status.st_mtime_ns,
            "" if is_folder else first,
            _content(place, status),
        )
    return found


def names(folder: Path) -> set[str]:
    return {place.name for place in folder.iterdir()}


def _content(place: Path, status: os.stat_result) -> bytes:
    if stat.S_ISLNK(status.st_mode):
        return os.fsencode(place.readlink())
    return place.read_bytes() if stat.S_ISREG(status.st_mode) else b""


def own(root: Path) -> None:
    """Give all of it to the agent, as what the agent writes belongs to it."""
    if os.geteuid() == 0:
        for place in [root, *root.rglob("*")]:
            os.chown(place, AGENT, AGENT, follow_symlinks=False)


def stored(blobs: FileBlobs, content: bytes) -> str:
    """Store a content; return its digest."""
    with os.fdopen(os.memfd_create("content"), "w+b", buffering=0) as source:
        source.write(content)
        source.seek(0)
        with blobs.writing() as writer:
            return writer.keep(source.fileno())
