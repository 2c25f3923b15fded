"""A store of ours that lost objects or cannot read them: made anew from the user's repository.

What was damaged is kept beside the new store, which borrows what can still be read of it.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.git import Git
from patchyard.clients.locks import locked
from patchyard.clients.syncing import put_in_place
from patchyard.clients.treewriter import hash_blob
from patchyard.domain.errors import UsageError, WorkFailed
from patchyard.workspaces.conversions import sizes_of
from patchyard.workspaces.store import DAMAGED, Store, alternates_of, parts

MENDING = "mending"  # folder in which the new store is made


def is_whole(git: Git, tree: str, history: Path | None, commit: str) -> bool:
    """Whether each object of a tree can be read, and of the history of `commit` each is there."""
    if git.attempt("archive", "--format=tar", "--output=/dev/null", tree).code != 0:
        return False
    if history is None:
        return True
    return git.at(history).attempt("rev-list", "--objects", "--quiet", commit).code == 0


def holds(store: Store, objects: set[str]) -> bool:
    """Whether the store has all of these objects."""
    return len(sizes_of(store.git, objects)) == len(objects)


def lost_of(git: Git, tree: str) -> Sequence[str]:
    """Return the paths below a tree whose content is lost or altered; the empty path for a folder.

    Reads all contents.
    """
    listed = git.attempt("ls-tree", "-r", "-z", tree)
    if listed.code != 0:
        return [""]
    entries = [part.partition("\t") for part in parts(listed.out)]
    blobs = {path: head.split(" ")[2] for head, _, path in entries if " blob " in head}
    sizes = sizes_of(git, set(blobs.values()))
    altered = set(_altered(git, sizes))
    return [path for path, blob in blobs.items() if blob not in sizes or blob in altered]


def _altered(git: Git, sizes: Mapping[str, int]) -> Iterator[str]:
    """Yield the blobs that cannot be read, or are not what their names say."""
    left = list(sizes)
    while left:
        with BlobReader(git) as reader:  # git ends over one that it cannot read
            while left:
                blob = left.pop()
                try:
                    found = hash_blob(sizes[blob], reader.chunks(blob), like=blob)
                except WorkFailed:
                    yield blob
                    break
                if found != blob:
                    yield blob


def mend(store: Store, tree: str, commit: str, retake: Callable[[Store], object]) -> bool:
    """Make the store and a history anew; return whether the tree is whole then.

    `retake` reads the checkout into the store that it is given. Nothing is moved before that one
    is whole, and at each moment all that could be read until then can be read.
    """
    with locked(store.folder / MENDING / "lock"):
        history = _history(store, commit)
        if is_whole(store.git, tree, history, commit):
            return True  # another process has done it
        place = store.folder / MENDING / "new"
        shutil.rmtree(place, ignore_errors=True)
        made = Store(store.git, place, store.source)
        try:
            with suppress(UsageError, WorkFailed):
                made.ensure()
                if commit:
                    made.history(commit)
                if not is_whole(made.git, tree, _history(made, commit), commit):
                    retake(made)
            if not is_whole(made.git, tree, _history(made, commit), commit):
                return False
            with store.making():  # what is aside for a moment, others would make
                _exchange(store, made, commit)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return True


def _history(store: Store, commit: str) -> Path | None:
    return store.history_place(commit) if commit else None


def _exchange(store: Store, made: Store, commit: str) -> None:
    """Put what was made in the place of what is damaged; the store, which sees all, at the end."""
    aside = _numbered(store.folder)
    aside.mkdir()
    if commit:
        history = store.history_place(commit)
        for place in (history, *(objects.parent for objects in alternates_of(history))):
            if place.is_dir() and not place.parent.name.startswith(DAMAGED):
                place.rename(aside / place.name)
        put_in_place(made.history_place(commit), history)
    if store.git_dir.is_dir():
        store.git_dir.rename(aside / store.git_dir.name)
    store.borrow(made.git_dir)
    put_in_place(made.git_dir, store.git_dir)


def _numbered(folder: Path) -> Path:
    number = 1 + sum(1 for _ in folder.glob(f"{DAMAGED}*"))
    return folder / f"{DAMAGED}{number}"


__all__ = ["holds", "is_whole", "lost_of", "mend"]
