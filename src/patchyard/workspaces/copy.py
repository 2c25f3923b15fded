"""Workspaces as private copies of our own checkouts: for engines without root or overlays."""

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchyard.clients.placer import Placer
from patchyard.clients.reader import Reader, plain_file
from patchyard.clients.sparse_files import are_same, fill, parts_of
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.changeset import Base
from patchyard.domain.manifest import ORIGIN
from patchyard.toolbox.wire import loaded
from patchyard.workspaces import whole
from patchyard.workspaces.bases import run
from patchyard.workspaces.ignores import Ignores
from patchyard.workspaces.layers import GONE
from patchyard.workspaces.sight import Sight, Tracked
from patchyard.workspaces.store import write_whole
from patchyard.workspaces.strategy import Strategy, deleted
from patchyard.workspaces.survey import Known


class CopyWorkspaces(Strategy):
    """contracts.workspace.Workspaces by copying (reflinks where the file system has them).

    `own` holds what we noted of the tree.
    """

    strategy = "copy"

    def _fill(self, base: Base, root: Path, layers: Sequence[Path]) -> Mapping[str, Any]:
        trees = self._trees
        checkout = trees.checkout_of(base)
        copy_tree(checkout, root)
        for layer in reversed(layers):
            _lay(layer, root)
        mounts = self._give_git(trees.synthetic_git(base), root)
        notes = root.parent / "own" / "notes.json"
        write_whole(notes, json.dumps(whole.note(root)))
        return {"notes": str(notes), "mounts": mounts, "checkout": str(checkout)}

    def _open(self, base: Base, ref: WorkspaceRef) -> Path:
        root = self._written(ref)
        if not (root.is_dir() and _notes(ref).is_file()):
            raise deleted(ref)
        if ref.details["mounts"]:
            self._trees.synthetic_git(base)  # what is borrowed, should it have been deleted
        return root

    def _note_again(self, base: Base, ref: WorkspaceRef) -> None:
        """Note the paths that the copy began with, where the notes are lost; none is as it was."""
        if _notes(ref).is_file():
            return
        made_of = (*map(Path, ref.details["layers"]), self._trees.checkout_of(base))
        paths = {path for folder in made_of for path in whole.note(folder)}
        write_whole(_notes(ref), json.dumps(dict.fromkeys(sorted(paths), "")))

    def _close(self, root: Path) -> None:
        """A copy is not mounted; there is nothing to do."""

    def _written(self, ref: WorkspaceRef) -> Path:
        return Path(ref.root)

    def _walk(self, ref: WorkspaceRef, reader: Reader, tracked: Tracked, ignores: Ignores) -> Sight:
        return whole.walk(reader, tracked, ignores, loaded(_notes(ref).read_text()))

    def _origins(self, base: Base, ref: WorkspaceRef) -> tuple[Path, ...]:
        layers = (Path(folder) for folder in ref.details["layers"])
        checkout = Path(ref.details["checkout"])
        return (*layers, checkout, self._trees.synthetic_git(base))

    def _known(self, base: Base, ref: WorkspaceRef) -> Known:
        notes: whole.Notes = loaded(_notes(ref).read_text())
        origins = self._origins(base, ref)

        def known(path: str, descriptor: int, status: os.stat_result) -> str:
            is_as_made = notes.get(path) == whole.fingerprint(status)
            for number, origin in enumerate(origins):
                if _is_copy(origin / path, status):
                    is_alike = is_as_made or _holds(descriptor, origin / path)
                    return f"{ORIGIN}{number}" if is_alike else ""
            return ""

        return known

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

    def _layer(self, ref: WorkspaceRef) -> Path:
        notes: whole.Notes = loaded(_notes(ref).read_text())
        now = whole.note(Path(ref.root))
        layer = _notes(ref).parent / "layer"
        if layer.exists():
            run("rm", "-rf", "--", str(layer))
        layer.mkdir(mode=0o755)
        root, checkout = Path(ref.root), Path(ref.details["checkout"])
        for path, seen in now.items():
            is_settled = seen != "" and seen == notes.get(path)
            if not is_settled and path != GONE and not _is_alike(checkout / path, root / path):
                _keep(root, layer, path)
        for path in sorted(notes.keys() - now.keys()):
            if os.path.lexists(checkout / path):
                _note_gone(root, layer, path)
        return layer


def _notes(ref: WorkspaceRef) -> Path:
    return Path(ref.details["notes"])


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder of ours with modes, times and owners; blocks are shared where that can be."""
    run("cp", "-a", "--reflink=auto", "-T", "--", str(source), str(target))


def _without(left_out: Path) -> Callable[[str, list[str]], list[str]]:
    def ignore(folder: str, names: list[str]) -> list[str]:
        return names if Path(folder) == left_out else []

    return ignore


def _is_copy(kept: Path, status: os.stat_result) -> bool:
    """Whether a file of ours has the size and the time of another, as a copy has."""
    try:
        own = kept.lstat()
    except OSError:
        return False
    same = (own.st_size, own.st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    return same and stat.S_ISREG(own.st_mode)


def _holds(descriptor: int, kept: Path) -> bool:
    """Whether an open file has the content of one of ours."""
    with plain_file(kept) as (own, _):
        return are_same(descriptor, own)


def _is_alike(kept: Path, now: Path) -> bool:
    """Whether a file or link is the base's, in mode and content."""
    status = now.lstat()
    if not os.path.lexists(kept) or kept.lstat().st_mode != status.st_mode:
        return False
    if stat.S_ISLNK(status.st_mode):
        return kept.readlink() == now.readlink()
    if not stat.S_ISREG(status.st_mode):
        return False
    with plain_file(now) as (opened, _):
        return _holds(opened, kept)


def _keep(root: Path, layer: Path, path: str) -> None:
    """Copy one entry into the layer, the folders above it made."""
    source, target = root / path, layer / path
    status = source.lstat()
    target.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISDIR(status.st_mode):
        target.mkdir(exist_ok=True)
    elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
        _copy(source, target, status)
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)


def _copy(source: Path, target: Path, status: os.stat_result) -> None:
    """Copy a file with its holes, or a link, with mode and time."""
    if stat.S_ISREG(status.st_mode):
        with plain_file(source) as (opened, now), target.open("xb") as made:
            fill(made.fileno(), parts_of(opened, until=now.st_size))  # no more: it may grow
        shutil.copystat(source, target, follow_symlinks=False)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _note_gone(root: Path, layer: Path, path: str) -> None:
    """Put into the layer what an overlay puts in place of a deleted file or folder."""
    above, name = Path(), ""
    for name in Path(path).parts:  # down to the first that is not there
        if not os.path.lexists(root / above / name):
            break
        above /= name
        if (root / above).is_symlink() or not (root / above).is_dir():
            return  # what lies there now hides it
    (layer / above).mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError, PermissionError):  # the second before Linux 5.8
        os.mknod(layer / above / name, stat.S_IFCHR)


def _lay(layer: Path, root: Path) -> None:
    """Put a kept layer over a fresh copy."""
    _take_away(layer, root)
    run("cp", "-a", "--reflink=auto", "--remove-destination", "-T", "--", str(layer), str(root))
    (root / GONE).unlink(missing_ok=True)


def _take_away(layer: Path, root: Path) -> None:
    """Delete what a layer of an earlier version says that its setup deleted."""
    listed = layer / GONE
    if not listed.is_file():
        return
    placer = Placer(root)
    for raw in listed.read_bytes().split(b"\0")[:-1]:
        with contextlib.suppress(OSError):  # a folder, or gone with one
            placer.remove(os.fsdecode(raw))


__all__ = ["CopyWorkspaces", "copy_tree"]
