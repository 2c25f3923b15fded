"""A store of ours that lost objects or cannot read them: made anew from the user's repository.

What was damaged is kept beside the new store, which borrows what can still be read of it.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from patchyard.clients.git import Git
from patchyard.clients.locks import locked
from patchyard.domain.errors import UsageError, WorkFailed
from patchyard.workspaces.store import DAMAGED, Store, alternates_of

SHOWN = 5  # paths that an error names
MENDING = "mending"  # folder that holds what was damaged until the new store is whole


def is_whole(git: Git, tree: str, history: Path | None, commit: str) -> bool:
    """Whether each object of a tree can be read, and of the history of `commit` each is there."""
    if git.attempt("archive", "--format=tar", "--output=/dev/null", tree).code != 0:
        return False
    if history is None:
        return True
    return git.at(history).attempt("rev-list", "--objects", "--quiet", commit).code == 0


def lost_of(git: Git, tree: str) -> Sequence[str]:
    """Return the paths below a tree whose content is lost; the empty path for a lost folder."""
    listed = git.attempt("ls-tree", "-r", "-z", tree)
    if listed.code != 0:
        return [""]
    entries = [part.partition(b"\t") for part in listed.out.split(b"\0") if part]
    blobs = [head.split(b" ") for head, _, _ in entries]
    names = b"".join(blob + b"\n" for _, kind, blob in blobs if kind == b"blob")
    told = git.attempt("cat-file", "--batch-check=%(objectname)", stdin=names).out.splitlines()
    lost = {line.split(b" ")[0] for line in told if line.endswith(b" missing")}
    paths = (path for (_, _, path), (*_, blob) in zip(entries, blobs, strict=True) if blob in lost)
    return [path.decode("utf-8", "surrogateescape") for path in paths]


def mend(store: Store, tree: str, commit: str, retake: Callable[[], object]) -> bool:
    """Make the store and a history anew; return whether the tree is whole then.

    `retake` reads the checkout into the new store. Where that does not help, all is as it was.
    """
    with locked(store.folder / MENDING / "lock"):
        history = store.folder / "history" / f"{commit}.git" if commit else None
        if is_whole(store.git, tree, history, commit):
            return True  # another process has done it
        kept = _set_aside(store, history)
        with suppress(UsageError, WorkFailed):
            store.ensure()
            if commit:
                store.history(commit)
            if not is_whole(store.git, tree, history, commit):
                retake()
        aside = _numbered(store.folder)
        (store.folder / MENDING / "old").rename(aside)
        store.borrow()
        if is_whole(store.git, tree, history, commit):
            return True
        for place in kept:
            shutil.rmtree(place, ignore_errors=True)
            (aside / place.name).rename(place)
        shutil.rmtree(aside)
        store.borrow()
        return False


def _set_aside(store: Store, history: Path | None) -> Sequence[Path]:
    """Move the store away, with a history and those that it borrows from; return their places."""
    old = store.folder / MENDING / "old"
    shutil.rmtree(old, ignore_errors=True)
    old.mkdir(parents=True)
    lenders = [place.parent for place in alternates_of(history)] if history else []
    kept = [
        place
        for place in dict.fromkeys([store.git_dir, *filter(None, [history]), *lenders])
        if place.is_dir() and not place.parent.name.startswith(DAMAGED)
    ]
    for place in kept:
        place.rename(old / place.name)
    return kept


def _numbered(folder: Path) -> Path:
    number = 1 + sum(1 for _ in folder.glob(f"{DAMAGED}*"))
    return folder / f"{DAMAGED}{number}"


def shown(paths: Sequence[str]) -> str:
    """Return paths as a message names them."""
    if not all(paths):
        return "its folders"
    more = len(paths) - SHOWN
    return ", ".join(paths[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")


__all__ = ["is_whole", "lost_of", "mend", "shown"]
