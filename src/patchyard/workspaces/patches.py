"""Hand-over as a patch file that `git apply --binary` takes.

The file's folder may be another user's, who can put a link in its place: it is opened once for each
step, by way of no link, and the file is made, read and deleted in the folder that was opened.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patchyard.clients.placer import Placer
from patchyard.clients.reader import OPEN_FILE, plain_file
from patchyard.clients.syncing import sync_folders_above
from patchyard.contracts.handover import Order, Receipt
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import Conflict, UsageError
from patchyard.workspaces.edits import nothing_at
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.worktree import require_writable

PASSING = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def plan(trees: GitTrees, base: Base, changeset: ChangeSet, order: Order) -> Receipt:
    """Work out the patch and where it goes. Raises UsageError, Conflict for another file.

    The name holds no link by now: one in the way was put there since. Raises StateRefusal for a
    folder that cannot be written.
    """
    place = Path(order.name).absolute()
    if not place.parent.is_dir():
        raise UsageError(f"there is no folder {place.parent}", hint="make it, or name another file")
    require_writable([place.parent])
    content = hashlib.sha256()
    size = 0
    for piece in trees.patch(base, changeset, order.paths):
        content.update(piece)
        size += len(piece)
    if order.paths and not size:
        raise nothing_at(order.paths)
    digest = content.hexdigest()
    with _held(place.parent) as at:
        if _digest(place, at) not in {"", digest}:
            raise _occupied(place)
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
    with _held(place.parent) as at:
        known = _digest(place, at)
        if known == intent.undo["sha256"]:  # a life that was killed may have synced nothing of it
            _sync(place.name, at)
            return
        if known:
            raise _occupied(place)
        content = trees.patch(base, changeset, tuple(intent.undo["paths"]))
        placer = Placer(f"/proc/self/fd/{at}", syncs=True)
        placer.put(place.name, "100644", content)


def _sync(name: str, at: int) -> None:
    with plain_file(name, dir_fd=at) as (descriptor, _):
        os.fsync(descriptor)
    sync_folders_above([name], Path(f"/proc/self/fd/{at}"))


def remove(receipt: Receipt) -> bool:
    """Delete the file while it is what was written, and say whether it was there.

    Raises Conflict for another file, and where a link has the place of its folder by now.
    """
    place = Path(receipt.reference or "")
    try:
        with _held(place.parent) as at:
            known = _digest(place, at)
            if known not in {"", receipt.undo["sha256"]}:
                raise Conflict(f"{place} was changed since", hint="delete it yourself")
            if known:
                os.unlink(place.name, dir_fd=at)
            sync_folders_above([place.name], Path(f"/proc/self/fd/{at}"))
    except FileNotFoundError:
        return False
    return bool(known)


def is_there(receipt: Receipt) -> bool:
    """Whether the file is there and is not empty, as a power cut may have left it."""
    place = Path(receipt.reference or "")
    try:
        with _held(place.parent) as at:
            return _digest(place, at) not in {"", hashlib.sha256().hexdigest()}
    except (Conflict, FileNotFoundError):
        return False


@contextmanager
def _held(folder: Path) -> Iterator[int]:
    """Hold a folder open whose name was resolved. Raises Conflict where a link is in the way.

    Raises FileNotFoundError for one that is gone.
    """
    at = os.open("/", PASSING)
    try:
        for name in folder.parts[1:]:
            deeper = _entered(name, at, folder)
            os.close(at)
            at = deeper
        yield at
    finally:
        os.close(at)


def _entered(name: str, at: int, folder: Path) -> int:
    try:
        return os.open(name, PASSING, dir_fd=at)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
            raise
        raise Conflict(
            f"{folder} was replaced, nothing was changed: a link or a file has its place, or that"
            " of a folder above it",
            hint=f"look at {folder} and the folders above it, then say the same again",
            details={"folder": str(folder)},
        ) from error


def _digest(place: Path, folder: int) -> str:
    """Return the file's hash, empty when it is not there. Raises UsageError for what is no file."""
    try:
        descriptor = os.open(place.name or ".", OPEN_FILE, dir_fd=folder)
    except FileNotFoundError:
        return ""
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENXIO}:
            raise
        raise _no_file(place) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _no_file(place)
        with open(descriptor, "rb", closefd=False) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    finally:
        os.close(descriptor)


def _no_file(place: Path) -> UsageError:
    return UsageError(f"{place} is there and is no file", hint="name another file")


def _occupied(place: Path) -> Conflict:
    return Conflict(f"{place} is there already with other content", hint="name another file")


__all__ = ["is_there", "plan", "remove", "write"]
