"""What the strategies share: the folder for plans, and turning a fresh workspace into a result."""

from pathlib import Path

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.placer import Placer
from patchyard.domain.changeset import Base
from patchyard.domain.errors import WorkFailed
from patchyard.workspaces.comparison import compare
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.sight import GITLINK


def prepare_folder(folder: Path) -> None:
    """Make the folder for plans: traversable, not readable."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)


def turn_into(trees: GitTrees, base: Base, tree: str, root: Path) -> None:
    """Write the difference from the base's tree to `tree` into a workspace nobody has used yet.

    Setup may have put links into it, so nothing is followed. Raises WorkFailed where one is met.
    """
    git = trees.git_of(base)
    placer = Placer(root, owner=(trees.uid, trees.gid))
    changes = compare(git, base.tree, tree)
    try:
        for change in changes:
            gone = change.old_path or (change.path if change.mode is None else None)
            if gone is not None:
                placer.remove(gone)
        with BlobReader(git) as blobs:
            for change in changes:
                if change.mode is not None and change.mode != GITLINK:
                    placer.put(change.path, change.mode, blobs.chunks(change.blob or ""))
    except OSError as error:
        raise WorkFailed(
            f"the result cannot be laid over the setup layer: {error}",
            hint="setup changed a path that the work changed as well",
        ) from error


__all__ = ["prepare_folder", "turn_into"]
