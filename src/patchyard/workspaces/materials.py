"""What the strategies share: the folder for plans, and turning a fresh workspace into a result."""

import os
from pathlib import Path

from patchyard.clients.reader import OPEN_FOLDER
from patchyard.domain.changeset import Base
from patchyard.domain.errors import WorkFailed
from patchyard.workspaces.comparison import compare
from patchyard.workspaces.pinned import GitTrees

FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def prepare_folder(folder: Path) -> None:
    """Make the folder for plans: traversable, not readable."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)


def turn_into(trees: GitTrees, base: Base, tree: str, root: Path) -> None:
    """Write the difference from the base's tree to `tree` into a workspace nobody has used yet."""
    git = trees.git_of(base)
    changes = compare(git, base.tree, tree)
    for change in changes:
        gone = change.old_path or (change.path if change.mode is None else None)
        if gone is not None:
            (root / gone).unlink()
            _drop_empty(root, gone)
    for change in changes:
        if change.mode is not None and change.mode != "160000":
            content = git.run("cat-file", "blob", change.blob or "")
            _place(trees, root, change.path, change.mode, content)


def _drop_empty(root: Path, path: str) -> None:
    folder = path.rpartition("/")[0]
    while folder:
        try:
            (root / folder).rmdir()
        except OSError:
            return
        folder = folder.rpartition("/")[0]


def _place(trees: GitTrees, root: Path, path: str, mode: str, content: bytes) -> None:
    at = os.open(root, OPEN_FOLDER)
    try:
        *folders, name = path.split("/")
        for folder in folders:
            at = _enter(trees, at, folder)
        if os.path.lexists(root / path):
            os.unlink(name, dir_fd=at)
        if mode == "120000":
            os.symlink(content, os.fsencode(name), dir_fd=at)
        else:
            descriptor = os.open(name, FRESH, int(mode[-3:], 8), dir_fd=at)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, int(mode[-3:], 8))
                file.write(content)
        os.chown(name, trees.uid, trees.gid, dir_fd=at, follow_symlinks=False)
    except OSError as error:
        raise WorkFailed(f"{path!r} cannot be written: {error.strerror}") from error
    finally:
        os.close(at)


def _enter(trees: GitTrees, at: int, folder: str) -> int:
    """Return a descriptor of the folder, made when missing; `at` is closed."""
    try:
        try:
            os.mkdir(folder, 0o755, dir_fd=at)
            os.chown(folder, trees.uid, trees.gid, dir_fd=at, follow_symlinks=False)
        except FileExistsError:
            pass
        return os.open(folder, OPEN_FOLDER, dir_fd=at)
    finally:
        os.close(at)


__all__ = ["prepare_folder", "turn_into"]
