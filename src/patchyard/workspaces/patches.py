"""Hand-over as a patch file that `git apply --binary` takes."""

import hashlib
import os
from pathlib import Path

from patchyard.clients.placer import Placer
from patchyard.clients.syncing import sync_folders_above
from patchyard.contracts.handover import Order, Receipt
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import Conflict, UsageError
from patchyard.workspaces.edits import nothing_at
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.worktree import require_writable


def plan(trees: GitTrees, base: Base, changeset: ChangeSet, order: Order) -> Receipt:
    """Work out the patch and where it goes. Raises UsageError, Conflict for another file.

    Raises StateRefusal for a folder that cannot be written.
    """
    place = Path(order.name).absolute()
    if not place.parent.is_dir():
        raise UsageError(f"there is no folder {place.parent}", hint="make it, or name another file")
    require_writable([place.parent])
    content = trees.patch(base, changeset, order.paths)
    if order.paths and not content:
        raise nothing_at(order.paths)
    digest = hashlib.sha256(content).hexdigest()
    if _digest(place) not in {"", digest}:
        raise Conflict(f"{place} is there already with other content", hint="name another file")
    return Receipt(
        to="patch",
        is_done=False,
        touched=(str(place),),
        reference=str(place),
        undo={"sha256": digest, "paths": list(order.paths)},
    )


def write(trees: GitTrees, base: Base, changeset: ChangeSet, intent: Receipt) -> None:
    """Write the file whole, or leave one of ours that is there. Raises Conflict for another."""
    place = Path(intent.reference or "")
    known = _digest(place)
    if known == intent.undo["sha256"]:
        return
    if known:
        raise Conflict(f"{place} is there already with other content", hint="name another file")
    content = trees.patch(base, changeset, tuple(intent.undo["paths"]))
    placer = Placer(place.parent, syncs=True)  # by no link that a clone may hold
    placer.put(place.name, "100644", [content])


def remove(receipt: Receipt) -> None:
    """Delete the file while it is what was written. Raises Conflict otherwise."""
    place = Path(receipt.reference or "")
    if _digest(place) not in {"", receipt.undo["sha256"]}:
        raise Conflict(f"{place} was changed since", hint="delete it yourself")
    place.unlink(missing_ok=True)
    sync_folders_above([place.name], place.parent)


def is_there(receipt: Receipt) -> bool:
    """Whether the file is there and is not empty, as a power cut may have left it."""
    place = Path(receipt.reference or "")
    return bool(_digest(place)) and place.stat().st_size > 0


def _digest(place: Path) -> str:
    """Return the file's hash, empty when it is not there. Raises UsageError for what is no file."""
    if not os.path.lexists(place):
        return ""
    if not place.is_file():
        raise UsageError(f"{place} is there and is no file", hint="name another file")
    return hashlib.sha256(place.read_bytes()).hexdigest()


__all__ = ["is_there", "plan", "remove", "write"]
