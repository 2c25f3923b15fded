"""Trusted git: bases read from the user's checkout into our own store, and what is made of them."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.foreign_git import ITS_OWN, ForeignGit
from patchyard.clients.git import Git
from patchyard.clients.git_folders import require_readable
from patchyard.clients.refused_names import require_in_order
from patchyard.clients.scratch import sweep
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import Unavailable, UsageError, WorkFailed
from patchyard.domain.held import Entries
from patchyard.domain.links import TreeLinks
from patchyard.workspaces import mending, snapshot, source
from patchyard.workspaces.bases import Bases
from patchyard.workspaces.conversions import sizes_of
from patchyard.workspaces.layers import lying_over
from patchyard.workspaces.losses import damaged, gone, lost_result
from patchyard.workspaces.patch_pieces import mended, patch_pieces
from patchyard.workspaces.recollection import Recollections
from patchyard.workspaces.sight import Tracked
from patchyard.workspaces.store import Store, listed_entries
from patchyard.workspaces.tree_making import grafted, key_tree
from patchyard.workspaces.treelinks import LastLinks
from patchyard.workspaces.view import HOME_KEY, XDG_KEY

KEPT_LISTINGS = 4

T = TypeVar("T")


class GitTrees:
    """contracts.trees.Trees over the git command, under one home.

    `uid` and `gid` own what an agent will write on: the engine's own, or the agent's under root.
    """

    def __init__(
        self,
        home: Path,
        *,
        uid: int | None = None,
        gid: int | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Take the home. `environ` says where the user's git configuration lies."""
        self.home = home
        self.uid = os.geteuid() if uid is None else uid
        self.gid = os.getegid() if gid is None else gid
        self.bases = Bases(home / "bases", uid=self.uid, gid=self.gid)
        self._environ = dict(os.environ if environ is None else environ)
        self._listings: dict[str, dict[str, tuple[str, str]]] = {}
        self._last_links = LastLinks()
        self._recollections = Recollections(home / "trees")
        self._tracked: tuple[str, Tracked] | None = None
        self._submodules: tuple[str, Mapping[str, str]] | None = None
        self._lock = threading.Lock()

    async def snapshot(self, repository: Path, *, ref: str | None = None) -> Base:
        """Record the checkout as it is, or a commit; see contracts.trees."""
        return await asyncio.to_thread(self._snapshot, repository, ref)

    async def checkout(self, base: Base) -> Path:
        """Return our read-only checkout of the base's tree, built once per tree."""
        return await asyncio.to_thread(self.checkout_of, base)

    async def history(self, base: Base) -> Path:
        """Return the git directory that holds the history of the base's commit."""
        return self.history_of(base)

    async def diff(
        self,
        base: Base,
        changeset: ChangeSet,
        *,
        paths: Sequence[str] = (),
        has_binary: bool = True,
    ) -> AsyncIterator[bytes]:
        """Yield the change set as a patch; see contracts.trees."""
        pieces = self.patch(base, changeset, paths, has_binary=has_binary)
        try:
            while piece := await asyncio.to_thread(next, pieces, b""):
                yield piece
        finally:
            await asyncio.to_thread(pieces.close)

    async def lost(self, base: Base, tree: str) -> Sequence[str]:
        """Return the paths of a tree whose content is lost; see contracts.trees."""
        return await asyncio.to_thread(mending.lost_of, self._looking_at(base), tree)

    async def key_base(self, base: Base, *, tree: str | None = None) -> Base:
        """Return a base of the dependency files alone; see contracts.trees."""
        entries = await asyncio.to_thread(self.entries, base, tree or base.tree)
        reduced = await asyncio.to_thread(key_tree, self.git_of(base), entries)
        return Base(
            repository=base.repository, store=base.store, commit=None, branch=None, tree=reduced
        )

    async def hidden_by(
        self, base: Base, folder: Path, *, tree: str | None = None
    ) -> Sequence[str]:
        """Return what in `folder` would hide files of the base; see contracts.trees."""
        entries = await asyncio.to_thread(self.entries, base, tree or base.tree)
        return await asyncio.to_thread(lying_over, folder, Tracked(entries))

    async def links(self, base: Base, changeset: ChangeSet) -> TreeLinks:
        """Return the links of base and result; see contracts.trees."""
        return await asyncio.to_thread(self._links, base, changeset)

    async def names(self, base: Base) -> Collection[str]:
        """Return the paths of the base; see contracts.trees."""
        entries = await asyncio.to_thread(self.entries, base, base.tree)
        return entries.keys()

    async def folder(self, base: Base, folder: str) -> str:
        """Return the name of a folder's tree object; see contracts.trees."""
        words = ("ls-tree", "-d", "-z", base.tree, "--", folder)
        found = await asyncio.to_thread(self.git_of(base).run, *words) if folder else b""
        if folder and not found:
            raise UsageError(
                f"there is no folder {folder} in the base", hint="look at the build's context"
            )
        return found.split()[2].decode("ascii") if folder else base.tree

    async def archive(self, base: Base, folder: str, to: Path) -> None:
        """Write a tar of a folder of the base; see contracts.trees."""
        name = await self.folder(base, folder)
        words = ("archive", "--format=tar", f"--output={to}", name)
        await asyncio.to_thread(self.git_of(base).run, *words)

    async def blob(self, base: Base, blob: str) -> bytes:
        """Return the content of one blob."""
        return await asyncio.to_thread(self.git_of(base).run, "cat-file", "blob", blob)

    async def sizes(self, base: Base, blobs: Collection[str]) -> Mapping[str, int]:
        """Return the bytes of each blob; see contracts.trees."""
        return await asyncio.to_thread(sizes_of, self.git_of(base), set(blobs))

    async def pieces(self, base: Base, blob: str) -> AsyncIterator[bytes]:
        """Yield the content of a blob in pieces; see contracts.trees."""
        with await asyncio.to_thread(BlobReader, self.git_of(base)) as reader:
            chunks = reader.chunks(blob)
            while piece := await asyncio.to_thread(next, chunks, b""):
                yield piece

    async def file(self, base: Base, path: str, *, largest: int) -> bytes | None:
        """Return what the base has at a path; see contracts.trees."""
        return await asyncio.to_thread(self._file, base, path, largest)

    async def grafted(
        self, base: Base, tree: str, entries: Entries, contents: Mapping[str, bytes]
    ) -> str:
        """Return `tree` with other entries in it; see contracts.trees."""
        return await asyncio.to_thread(grafted, self.git_of(base), tree, entries, contents)

    async def mentions(self, base: Base, words: Sequence[str]) -> bool:
        """Whether the base holds one of `words`; see contracts.trees."""
        given = [part for word in words for part in ("-e", word)]
        found = await asyncio.to_thread(
            self.git_of(base).attempt, "grep", "-q", "-I", "-i", "-F", *given, base.tree
        )
        return found.code == 0

    def _file(self, base: Base, path: str, largest: int) -> bytes | None:
        mode, blob = self.entries(base, base.tree).get(path, ("", ""))
        if not mode.startswith("100"):
            return None
        git = self.git_of(base)
        size = int(git.run("cat-file", "-s", blob))
        return git.run("cat-file", "blob", blob) if size <= largest else None

    def git_of(self, base: Base) -> Git:
        """Return a git that looks at the store of this base; a deleted one is made again.

        Raises Unavailable where the user's repository does not hold the same any more.
        """
        store = Path(base.store)
        has_history = base.commit is None or self.history_of(base).is_dir()
        if not (store.is_dir() and has_history):
            self._restore(base)
        return self._looking_at(base)

    def _looking_at(self, base: Base) -> Git:
        store = Path(base.store)
        return Git(home=self._git_home(), config=store.parent / "gitconfig", git_dir=store)

    def history_of(self, base: Base) -> Path:
        """Return where the history of the base's commit lies; `snapshot` has made it."""
        return Path(base.store).parent / "history" / f"{base.commit}.git"

    def checkout_of(self, base: Base) -> Path:
        """Return our read-only checkout of the base's tree; blocking."""
        is_next = base.commit is not None

        def made() -> Path:
            return self.bases.checkout(self.git_of(base), base.tree, is_next=is_next)

        return self._mended(base, made)

    def synthetic_git(self, base: Base) -> Path:
        """Return a folder that holds just the agent's `.git`, made once per base."""
        history, made = self.history_of(base), self.bases.synthetic_git
        return self._mended(base, lambda: made(self.git_of(base), base, history))

    def entries(self, base: Base, tree: str) -> dict[str, tuple[str, str]]:
        """Return mode and blob by path of a tree in the base's store. Callers do not change it."""
        with self._lock:
            known = self._listings.get(tree)
        if known is None:
            words = ("ls-tree", "-r", "-z", "--full-tree", tree)
            out = self._found(base, tree, lambda: self.git_of(base).run(*words))
            known = listed_entries(out)
            with self._lock:
                self._listings[tree] = known
                while len(self._listings) > KEPT_LISTINGS:
                    del self._listings[next(iter(self._listings))]
        return known

    def tracked(self, base: Base) -> Tracked:
        """Return the base's entries with the questions a walk asks of them; kept for a while."""
        with self._lock:
            known = self._tracked
        if known is None or known[0] != base.tree:
            known = (base.tree, Tracked(self.entries(base, base.tree)))
            with self._lock:
                self._tracked = known
        return known[1]

    def open_store(self, place: Path) -> Store:
        """Read what the repository around `place` is and return our folder for it."""
        top = source.top_of(place)
        empty = self._git_home()
        asking = ForeignGit(
            home=empty,
            config=empty / "none",
            further={"safe.directory": str(top)},
            known=ITS_OWN,
        )
        known, home = self._recollections.of(top), self._environ.get("HOME", "")
        require_readable(asking, top, home=home, listings=known.listings)
        found = source.find(asking, top, self._environ)
        places = {
            HOME_KEY: home,
            XDG_KEY: self._environ.get("XDG_CONFIG_HOME", ""),
        }
        found = replace(found, settings={**found.settings, **places})
        store = Store(asking, self.home / "trees" / found.key, found, recollection=known)
        store.ensure()
        return store

    def store_of(self, base: Base) -> Store:
        """Return our folder for the base's repository. Raises Unavailable when that is gone.

        A repository further up is another one: nothing of this plan belongs there.
        """
        place = Path(base.repository)
        if not is_there(base):
            what = place / ".git" if place.is_dir() else place
            raise Unavailable(
                f"the repository of this plan is gone: there is no {what}",
                hint="bring it back from where it went or from a backup, then resume;"
                " `agents plan diff` shows the change without it",
            )
        return self.open_store(place)

    def _snapshot(self, repository: Path, ref: str | None) -> Base:
        sweep(self.home)
        store = self.open_store(repository)
        commit, branch = source.head_of(store.user_git, store.source, ref)

        def taken() -> Base:
            if ref is None:
                return self._taken(store, commit, branch)
            return snapshot.of_commit(store, commit, branch)

        try:
            base = taken()
        except WorkFailed:
            if not mending.mend(store, f"{commit}^{{tree}}", commit, lambda _: None):
                raise
            base = taken()
        self._recollections.write(store.source.top)
        require_in_order(self.entries(base, base.tree), commit=commit, where=str(store.source.top))
        return replace(base, submodules=self._submodules_of(base))

    def _submodules_of(self, base: Base) -> Mapping[str, str]:
        """Return the commit of each submodule by path; kept for the last tree."""
        known = self._submodules
        if known is None or known[0] != base.tree:
            entries = self.entries(base, base.tree).items()
            links = {path: blob for path, (mode, blob) in entries if mode == snapshot.GITLINK}
            self._submodules = known = (base.tree, links)
        return dict(known[1])

    def _restore(self, base: Base) -> None:
        """Make the deleted store of a base again, if the user's repository still holds the same."""
        normalised = {pair.normalised for pair in base.filtered.values()}
        needed = {base.tree, base.excludes, base.attributes, *normalised} - {""}
        commit = base.commit or ""
        if not is_there(base):
            raise gone(base)
        try:
            store = self.store_of(base)
            store.history(commit)
            if not mending.holds(store, needed):
                self._taken(store, commit, base.branch)
            is_whole = os.fspath(store.git_dir) == base.store and mending.holds(store, needed)
        except (UsageError, WorkFailed) as error:
            raise gone(base) from error
        if not is_whole:
            raise gone(base)

    def _taken(self, store: Store, commit: str, branch: str | None) -> Base:
        return snapshot.patiently(
            lambda: snapshot.of_checkout(store, commit, branch, home=self.home)
        )

    def _mended(self, base: Base, work: Callable[[], T]) -> T:
        """Do `work` on the store of a base; once more after what is damaged there was made anew.

        Raises Unavailable where the base is damaged, and the user's repository does not help.
        """
        try:
            return work()
        except WorkFailed:
            git, commit = self.git_of(base), base.commit or ""
            history = self.history_of(base) if commit else None
            if mending.is_whole(git, base.tree, history, commit):
                raise
            store = self.store_of(base)

            def retake(made: Store) -> Base:
                return self._taken(made, commit, base.branch)

            if not mending.mend(store, base.tree, commit, retake):
                raise damaged(base, mending.lost_of(git, base.tree)) from None
            return work()

    def _found(self, base: Base, tree: str, work: Callable[[], T]) -> T:
        """Do `work` on a tree of ours. Raises Unavailable when that is lost."""
        try:
            return self._mended(base, work)
        except WorkFailed as error:
            lost = mending.lost_of(self.git_of(base), tree)
            if not lost:
                raise
            raise lost_result(base, tree, lost) from error

    def patch(
        self,
        base: Base,
        changeset: ChangeSet,
        paths: Sequence[str] = (),
        *,
        has_binary: bool = True,
    ) -> Generator[bytes]:
        """Yield the change set as a patch, in pieces that are not empty; blocking."""

        def made() -> Iterator[bytes]:
            return patch_pieces(self.git_of(base), changeset, paths, has_binary=has_binary)

        tree = changeset.tree
        return mended(made, lambda: self._found(base, tree, lambda: deque(made(), maxlen=0)))

    def _links(self, base: Base, changeset: ChangeSet) -> TreeLinks:
        known = self.tracked(base).links
        return self._last_links.of(self.git_of(base), known, base, changeset.changes)

    def _git_home(self) -> Path:
        place = self.home / "git-home"
        place.mkdir(parents=True, exist_ok=True)
        return place


def is_there(base: Base) -> bool:
    """Whether the base's repository is still where it was."""
    return os.path.lexists(Path(base.repository, ".git"))


__all__ = ["GitTrees", "is_there"]
