"""The user's checkout as a tree of ours: what is tracked, plus what is untracked and not ignored.

The tree holds the bytes as they lie in the checkout. Nothing is written into the checkout.
"""

import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from patchyard.clients.git import text
from patchyard.clients.reader import Reader, git_mode
from patchyard.clients.refused_names import require_written
from patchyard.clients.treewriter import ChangedMeanwhile, TreeWriter, chunks_of
from patchyard.domain.changeset import Base, FilteredPair
from patchyard.domain.errors import UsageError, WorkFailed
from patchyard.domain.machine import is_of_machine, refused_by_machine
from patchyard.domain.names import refused_because
from patchyard.workspaces import conversions, view
from patchyard.workspaces.rule_files import require_readable
from patchyard.workspaces.store import Store
from patchyard.workspaces.view import Entry, View

GITLINK = "160000"
ATTEMPTS = 3


@dataclass(kw_only=True)
class _Draft:
    """A snapshot while it is taken."""

    store: Store
    shown: View
    root: str  # the tree of the commit
    staged: dict[str, Entry]
    touched: dict[str, Entry]
    untracked: set[str]
    left_out: list[str]
    filtered: dict[str, FilteredPair] = field(default_factory=dict)
    uncommitted: int = 0


def of_commit(store: Store, commit: str, branch: str | None) -> Base:
    """Return the tree of a commit as a base. Raises UsageError for names that git never writes."""
    store.history(commit)
    require_written(store.git, commit, where=str(store.source.top))
    return Base(
        repository=str(store.source.top),
        store=str(store.git_dir),
        commit=commit,
        branch=branch,
        tree=text(store.git.run("rev-parse", f"{commit}^{{tree}}")),
        author=store.source.author,
        conversions=store.source.conversions,
    )


def of_checkout(store: Store, commit: str, branch: str | None, *, home: Path) -> Base:
    """Return the checkout as it is as a base.

    Raises UsageError naming what cannot be read, or what git would wait for, and where files of
    our `home` would be a part of it.
    """
    store.history(commit)
    with view.opened(store) as shown:
        with ThreadPoolExecutor() as beside:  # each waits for a git of its own
            staged = beside.submit(view.staged, shown, commit)
            root = beside.submit(store.git.run, "rev-parse", f"{commit}^{{tree}}")
            listings = store.recollection.listings
            require_readable(shown.git, store.source.top, shown.indexed, listings=listings)
            touched = beside.submit(view.touched, shown)
            files, nested = view.untracked(shown)
        draft = _Draft(
            store=store,
            shown=shown,
            root=text(root.result()),
            staged=staged.result(),
            touched=touched.result(),
            untracked=set(files),
            left_out=nested,
        )
        _require_apart(draft, home)
        pairs = conversions.in_checkout(shown, store, {*draft.touched, *files})
        draft.filtered.update(pairs)
        tree = _write(draft)
        return Base(
            repository=str(store.source.top),
            store=str(store.git_dir),
            commit=commit,
            branch=branch,
            tree=tree,
            uncommitted=draft.uncommitted,
            filtered=pairs,
            author=store.source.author,
            excludes=store.keep(shown.excludes) if shown.excludes else "",
            attributes=store.keep(shown.attributes) if shown.attributes else "",
            withheld=shown.withheld,
            conversions=store.source.conversions,
            left_out=tuple(sorted(draft.left_out)),
        )


def _require_apart(draft: _Draft, home: Path) -> None:
    top, place = (os.path.realpath(each) for each in (draft.store.source.top, home))
    if not Path(place).is_relative_to(top):
        return
    below = "" if place == top else f"{os.path.relpath(place, top)}/"
    paths = (*draft.untracked, *draft.staged, *draft.touched)
    if any(path.startswith(below) for path in paths):
        raise UsageError(
            f"the home {home} lies in the checkout {top}, and its files would be a part of what"
            " plans start from",
            hint="set PATCHYARD_HOME outside of it, or have git ignore it",
        )


def _write(draft: _Draft) -> str:
    paths = sorted({*draft.staged, *draft.touched, *draft.untracked, *draft.filtered})
    if not paths:
        return draft.root
    with (
        Reader(draft.store.source.top) as reader,
        TreeWriter(draft.store.git, draft.root) as writer,
    ):
        kept = list(_existing(draft, reader, paths))
        gone = sorted(set(paths) - {path for path, _ in kept})
        for path in gone:
            _remove(draft, writer, path)
        for path, status in kept:
            _put(draft, reader, writer, path, status)
        return writer.finish()


def _existing(
    draft: _Draft, reader: Reader, paths: Iterable[str]
) -> Iterable[tuple[str, os.stat_result]]:
    for path in paths:
        planned = draft.staged.get(path)
        if planned is not None and planned.status == "D" and path not in draft.untracked:
            continue
        try:
            status = reader.status(path)
        except OSError as error:
            raise view.unreadable(draft.shown, path) from error
        if status is not None and (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            if refused_because(path, is_symlink=stat.S_ISLNK(status.st_mode)):
                draft.left_out.append(path)
            else:
                yield path, status


def _remove(draft: _Draft, writer: TreeWriter, path: str) -> None:
    """Take `path` out, unless the index alone decides (a submodule, a sparse checkout)."""
    entry = draft.touched.get(path)
    planned = draft.staged.get(path)
    if entry is None and planned is not None and planned.status != "D":
        if planned.mode != GITLINK:
            _copy_blob(draft, planned.new_id)
        writer.link(path, planned.mode, planned.new_id)
        draft.uncommitted += 1
    elif planned is None or planned.status != "A":
        writer.delete(path)
        draft.uncommitted += entry is not None or planned is not None


def _copy_blob(draft: _Draft, blob: str) -> None:
    source = draft.store.source
    with draft.store.stand_in() as user:
        content = user.run("cat-file", "blob", blob)
    if draft.store.keep(content) != blob:
        raise WorkFailed(f"blob {blob} of {source.top} does not match its name")


def _put(
    draft: _Draft, reader: Reader, writer: TreeWriter, path: str, status: os.stat_result
) -> None:
    mode = _mode(draft, path, status)
    try:
        if stat.S_ISLNK(status.st_mode):
            target = reader.target(path)
            blob = writer.put(path, mode, len(target), [target])
        else:
            with reader.opened(path) as (descriptor, now):
                blob = writer.put(path, mode, now.st_size, chunks_of(descriptor, now.st_size))
    except OSError as error:
        if is_of_machine(error):
            raise refused_by_machine(error) from error
        raise view.unreadable(draft.shown, path) from error
    draft.uncommitted += _differs(draft, path, mode, blob)


def _mode(draft: _Draft, path: str, status: os.stat_result) -> str:
    """Return the mode, the index's where the user's git does not trust the file system."""
    entry = draft.touched.get(path)
    planned = draft.staged.get(path)
    known = entry.old_mode if entry else planned.mode if planned else "100644"
    source = draft.store.source
    if stat.S_ISREG(status.st_mode):
        if source.settings.get("core.symlinks", "true") == "false" and known == "120000":
            return known
        if not source.has_modes:
            return known if known.startswith("100") else "100644"
    return git_mode(status.st_mode)


def _differs(draft: _Draft, path: str, mode: str, blob: str) -> bool:
    """Whether the commit has something else at `path`, conversions aside."""
    planned = draft.staged.get(path)
    entry = draft.touched.get(path)
    if planned is not None:
        before = (planned.old_mode, planned.old_id)
    elif entry is not None:
        before = (entry.old_mode, entry.old_id)
    else:
        return path in draft.untracked
    pair = draft.filtered.get(path)
    return before not in {(mode, blob), (mode, pair.normalised if pair else blob)}


def patiently(take: Callable[[], Base]) -> Base:
    """Take a snapshot again when the user wrote a file while it was read."""
    for _ in range(ATTEMPTS - 1):
        with suppress(ChangedMeanwhile):
            return take()
    return take()


__all__ = ["of_checkout", "of_commit", "patiently"]
