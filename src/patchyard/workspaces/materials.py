"""What the strategies share: the folder for plans, and turning a fresh workspace into a result."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.placer import Placer
from patchyard.clients.removal import MountedInside, mounts_below, remove_tree, set_aside
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.changeset import Base
from patchyard.domain.errors import Unavailable, UsageError, WorkFailed
from patchyard.domain.machine import FREE_SPACE, is_full_disk, is_of_machine, refused_by_machine
from patchyard.workspaces.comparison import compare
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.sight import GITLINK

LABEL = "label"  # in `own`: which home's it is


def make_place(place: Path, home: Path) -> None:
    """Make the folder of one workspace, traversable, and in it `own`, which is only ours.

    A label in it names our home: other installations may keep theirs in the same folder.

    The folders above it, for all of them, are made when missing: to be passed, not to be read.
    """
    make_passage(place.parent)
    place.mkdir()
    place.chmod(0o711)
    (place / "own").mkdir(mode=0o700)
    (place / "own" / LABEL).write_bytes(os.fsencode(home))


def make_passage(folder: Path) -> None:
    """Make a folder and those above it where they are missing: to be passed, not to be read."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        each.chmod(0o711)


def delete(place: Path) -> None:
    """Delete a workspace's folder, whatever modes its owner left. Nothing there is fine.

    Raises MountedInside: what somebody has mounted in it is never entered.
    """
    for mount in mounts_below(place):
        raise MountedInside(place, mount)
    if place.is_dir():
        remove_tree(set_aside(place))


@contextlib.contextmanager
def reading(root: str) -> Iterator[None]:
    """Translate what the kernel says while a work tree is read that somebody still changes.

    Raises Unavailable for what is the machine's trouble, WorkFailed for all else.
    """
    try:
        yield
    except OSError as error:
        if is_of_machine(error):
            raise refused_by_machine(error) from error
        raise WorkFailed(
            f"{root} changed while it was read: {error}",
            hint="end what still runs in it, then try again",
        ) from error


def make_folders(ref: WorkspaceRef, folders: Sequence[str]) -> None:
    """Make folders in a workspace nobody has used yet, through no link.

    Raises UsageError when something else has that name, Unavailable where there is no room.
    """
    for folder in folders:
        at = os.open(ref.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in folder.split("/"):
                at = _step_into(at, part, (ref.owner_uid, ref.owner_gid))
        except OSError as error:
            if is_of_machine(error):
                raise refused_by_machine(error) from error
            raise UsageError(
                f"{folder} cannot be shown in the workspace: {error.strerror}",
                hint="take it out of `include`",
            ) from error
        finally:
            os.close(at)


def _step_into(at: int, part: str, owner: tuple[int, int]) -> int:
    """Return a descriptor of `part` below `at`, made when it is missing; `at` is closed."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, 0o755, dir_fd=at)
        os.chown(part, *owner, dir_fd=at, follow_symlinks=False)
    inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    os.close(at)
    return inner


def turn_into(trees: GitTrees, base: Base, tree: str, root: Path) -> None:
    """Write the difference from the base's tree to `tree` into a workspace nobody has used yet.

    Setup may have put links into it, so nothing is followed. Raises WorkFailed where one is met.
    """
    git = trees.git_of(base)
    placer = Placer(root, owner=(trees.uid, trees.gid), is_exact=True)
    changes = compare(git, base.tree, tree)
    written = [change for change in changes if change.mode not in {None, GITLINK}]
    asked = [change.blob or "" for change in written]
    try:
        for change in changes:
            gone = change.old_path or (change.path if change.mode is None else None)
            if gone is not None:
                placer.remove(gone)
        with BlobReader(git) as blobs:
            for change, content in zip(written, blobs.ahead(asked), strict=True):
                placer.put(change.path, change.mode or "", content)
    except OSError as error:
        if is_full_disk(str(error)):
            raise Unavailable(f"{root} cannot be filled: {error}", hint=FREE_SPACE) from error
        raise WorkFailed(
            f"the result cannot be laid over the setup layer: {error}",
            hint="setup changed a path that the work changed as well",
        ) from error


__all__ = [
    "LABEL",
    "delete",
    "make_folders",
    "make_passage",
    "make_place",
    "reading",
    "turn_into",
]
