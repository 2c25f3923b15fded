"""Hand-over of a change set to the user's repository: all of it or nothing, and back again.

`plan` reads and checks; only `carry_out` and `take_back` write there, by repeatable steps.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from patchyard.clients.git import Git
from patchyard.clients.locks import locked_patiently
from patchyard.contracts.handover import Order, Receipt
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import Conflict, PatchyardError, StateRefusal, UnknownName, UsageError
from patchyard.workspaces import forms, patches
from patchyard.workspaces.clearance import as_it_lies, require_allowed
from patchyard.workspaces.commits import UserRepository, commit, tree_with
from patchyard.workspaces.edits import Edit, Wanted, decode, in_the_way, resolve, wanted
from patchyard.workspaces.landing import Site, onto_checkout
from patchyard.workspaces.merging import merge
from patchyard.workspaces.pinned import GitTrees, is_there
from patchyard.workspaces.store import Store
from patchyard.workspaces.worktree import WorkTree, require_writable

HANDING = "handing.lock"  # of who writes into the user's repository
WAYS = ("branch", "merge", "patch", "worktree")
TAKE_OUT = (
    "take your newer edits out of these paths and unapply again, or take the change out from under"
    " them: `agents plan diff PLAN | git apply -R`"
)
FINISH = (
    "`agents plan unapply PLAN` takes back what is in; or clear the way and"
    " `agents plan resume PLAN` finishes it"
)


class GitHandOver:
    """contracts.handover.HandOver over git: worktree, branch, merge, patch."""

    def __init__(self, trees: GitTrees) -> None:
        """Take the trees that bases and change sets lie in."""
        self._trees = trees

    async def plan(self, base: Base, changeset: ChangeSet, order: Order) -> Receipt:
        """Work out and check everything; see contracts.handover."""
        return await asyncio.to_thread(self._plan, base, changeset, order)

    @asynccontextmanager
    async def turn(self, base: Base) -> AsyncIterator[None]:
        """Have one's turn in the repository; see contracts.handover."""
        store = await asyncio.to_thread(self._trees.store_of, base)
        async with locked_patiently(store.folder / HANDING):
            yield

    async def carry_out(
        self, base: Base, changeset: ChangeSet, order: Order, intent: Receipt
    ) -> Receipt:
        """Do what `intent` says; see contracts.handover."""
        if order.to != intent.to:
            raise StateRefusal(
                f"an apply to {intent.to} was begun; {order.to} was asked for",
                hint=f"finish it first: --to {intent.to}",
            )
        await asyncio.to_thread(self._carry_out, base, changeset, intent)
        return replace(intent, is_done=True)

    async def take_back(self, base: Base, changeset: ChangeSet, receipt: Receipt) -> Sequence[str]:
        """Reverse `receipt`; see contracts.handover."""
        return await asyncio.to_thread(self._take_back, base, changeset, receipt)

    def _plan(self, base: Base, changeset: ChangeSet, order: Order) -> Receipt:
        if order.to not in WAYS:
            raise UnknownName.among("way of hand-over", order.to, WAYS)
        git = self._trees.git_of(base)
        if order.to != "patch" or is_there(base):
            store = self._trees.store_of(base)
            entries = self._trees.entries(base, base.tree)
            changeset = as_it_lies(git, entries, changeset, store.source)
        require_allowed(changeset, order)
        if order.to == "patch":
            return patches.plan(self._trees, base, changeset, order)
        entries = self._trees.entries(base, changeset.tree)
        rows = wanted(changeset.changes, order.paths)
        paths = [row.path for row in rows]
        if order.paths and not rows:
            raise UsageError(
                f"the change set has nothing at {', '.join(order.paths)}",
                hint="agents plan diff --stat lists what it has",
            )
        with forms.opened(git, base, store.source, entries, paths) as known:
            site = Site(
                base=base,
                changeset=changeset,
                order=order,
                git=git,
                store=store,
                user=UserRepository(store.source, git),
                forms=known,
            )
            if order.to == "worktree":
                receipt = _receipt("worktree", onto_checkout(site, rows))
            else:
                new = self._commit(site, rows)
                in_branch = order.to == "branch"
                receipt = self._for_branch(site, new, paths) if in_branch else merge(site, new)
        folders = {store.source.git_dir} if receipt.commit else set()
        edits = decode(receipt.undo.get("edits", ()))
        if edits:
            folders |= _work_tree(store, git, changeset).folders_of(edits)
        require_writable(folders)
        return receipt

    def _commit(self, site: Site, rows: list[Wanted]) -> str:
        """Commit what the change set does onto the base's commit. Raises Conflict on overlap."""
        base = site.base
        parent = base.commit or ""
        held = self._trees.entries(base, f"{parent}^{{tree}}")
        clashes: list[str] = []
        edits = []
        for row in rows:
            pair = base.filtered.get(row.path)
            old = (row.old[0], pair.normalised) if row.old and pair else row.old
            goal = Wanted(path=row.path, old=old, new=site.forms.normalised(row.path, row.new))
            now = held.get(row.path)
            after = resolve(site.git, goal, now, clashes.append)
            if after != now:
                edits.append(Edit(path=row.path, before=now, after=after))
        if clashes:
            raise Conflict(
                f"the change overlaps uncommitted work in {', '.join(sorted(clashes)[:8])}",
                hint="commit that work and run again, or apply to the work tree",
                details={"paths": sorted(clashes)},
            )
        tree = tree_with(site.git, f"{parent}^{{tree}}", edits)
        return commit(site.git, base, tree, [parent], site.order.message)

    def _for_branch(self, site: Site, new: str, paths: Sequence[str]) -> Receipt:
        name = site.order.name
        site.user.check_name(name)
        ref = f"refs/heads/{name}"
        if site.user.value(ref) not in {"", new}:
            raise Conflict(f"the branch {name} is there already", hint="choose another --name")
        return Receipt(
            to="branch",
            is_done=False,
            touched=tuple(paths),
            commit=new,
            reference=name,
            undo={
                "ref": ref,
                "old": "",
                "parents": [site.base.commit],
                "large": dict(site.forms.large),
            },
        )

    def _carry_out(self, base: Base, changeset: ChangeSet, intent: Receipt) -> None:
        if intent.to == "patch":
            patches.write(self._trees, base, changeset, intent)
            return
        self._hand_over(base, changeset, intent, self._trees.store_of(base))

    def _hand_over(self, base: Base, changeset: ChangeSet, intent: Receipt, store: Store) -> None:
        git = self._trees.git_of(base)
        user = UserRepository(store.source, git)
        undo = intent.undo
        if intent.commit:
            if user.value(undo["ref"]) == intent.commit:
                return  # the ref moves last: all of it is done
            user.send(intent.commit, undo["parents"])
            user.keep_large(undo["large"])
        if "edits" not in undo:
            _move_ref(user, intent)
            return
        tree = _work_tree(store, git, changeset)
        edits = decode(undo["edits"])
        try:
            tree.carry_out(edits, like=base.tree)
            try:
                _move_index(user, decode(undo.get("index", ())))
                _move_ref(user, intent)
            except PatchyardError:  # a merge is all or nothing: somebody moved the branch meanwhile
                _put_back(tree, user, undo, like=base.tree)
                raise
        except PatchyardError as error:
            done, _ = tree.sorted_out(edits, like=base.tree)
            if done:
                raise _half_in(error, [edit.path for edit in done]) from error
            raise

    def _take_back(self, base: Base, changeset: ChangeSet, receipt: Receipt) -> Sequence[str]:
        if receipt.to == "patch":
            patches.remove(receipt)
            return receipt.touched
        return self._reverse(base, changeset, receipt, self._trees.store_of(base))

    def _reverse(
        self, base: Base, changeset: ChangeSet, receipt: Receipt, store: Store
    ) -> Sequence[str]:
        git = self._trees.git_of(base)
        user = UserRepository(store.source, git)
        undo = receipt.undo
        if receipt.commit:
            _require_movable(user, receipt)
        back = receipt.touched
        if "edits" in undo:
            tree = _work_tree(store, git, changeset)
            if not receipt.is_done and user.value(undo.get("ref", "")) != receipt.commit:
                undo = _unchanged(tree, user, undo, like=base.tree)
                back = tuple(edit.path for edit in decode(undo["edits"]))
            try:
                _put_back(tree, user, undo, like=base.tree)
            except Conflict as error:
                raise Conflict(error.message, hint=TAKE_OUT, details=error.details) from error
        if receipt.commit and user.value(undo["ref"]) != undo["old"]:
            user.move(undo["ref"], undo["old"], receipt.commit, reason="patchyard: unapply")
        return back


def _move_ref(user: UserRepository, intent: Receipt) -> None:
    if intent.commit:
        undo = intent.undo
        user.move(undo["ref"], intent.commit, undo["old"], reason=f"patchyard: {intent.to}")


def _half_in(error: PatchyardError, written: Sequence[str]) -> PatchyardError:
    """Return `error` for a hand-over of which an earlier, killed life wrote a part."""
    why = error.message.replace("nothing was changed", "nothing more was changed")
    return type(error)(
        f"an apply was cut short and cannot be finished: {why};"
        f" of the change, {', '.join(written[:8])} is in already",
        hint=FINISH,
        details={**error.details, "written": list(written)},
    )


def _unchanged(
    tree: WorkTree, user: UserRepository, undo: Mapping[str, Any], *, like: str
) -> dict[str, Any]:
    """Return what can be reversed of a hand-over cut short: all but newer work, left as it is."""
    done, to_do = tree.sorted_out(decode(undo["edits"]), like=like)
    staged = decode(undo.get("index", ()))
    now = user.index([edit.path for edit in staged])
    kept = [edit for edit in staged if now.get(edit.path) in (edit.before, edit.after)]
    return {
        **undo,
        "edits": [edit.as_list() for edit in (*done, *to_do)],
        "index": [edit.as_list() for edit in kept],
    }


def _put_back(tree: WorkTree, user: UserRepository, undo: Mapping[str, Any], *, like: str) -> None:
    """Reverse what was done to the work tree, and to the index where that followed."""
    tree.carry_out([edit.reversed() for edit in decode(undo["edits"])], like=like)
    _move_index(user, [edit.reversed() for edit in decode(undo.get("index", ()))])


def _move_index(user: UserRepository, edits: Sequence[Edit]) -> None:
    now = user.index([edit.path for edit in edits])
    odd = [edit.path for edit in edits if now.get(edit.path) not in (edit.before, edit.after)]
    if odd:
        raise in_the_way(odd, "was staged meanwhile")
    user.set_index({e.path: e.after for e in edits if now.get(e.path) != e.after})


def _require_movable(user: UserRepository, receipt: Receipt) -> None:
    """Raise Conflict unless the ref is where we left it, or already back."""
    ref, old = receipt.undo["ref"], receipt.undo["old"]
    if user.value(ref) not in {receipt.commit, old}:
        raise Conflict(
            f"{receipt.reference} has newer commits; nothing was changed",
            hint="revert the commit instead: git revert",
        )
    if not old and user.is_checked_out(ref):
        raise Conflict(
            f"{receipt.reference} is checked out; nothing was changed",
            hint="git switch to another branch first",
        )


def _receipt(to: str, edits: Sequence[Edit]) -> Receipt:
    return Receipt(
        to=to,
        is_done=False,
        touched=tuple(edit.path for edit in edits),
        undo={"edits": [edit.as_list() for edit in edits]},
    )


def _work_tree(store: Store, git: Git, changeset: ChangeSet) -> WorkTree:
    source = store.source
    if source.git_dir.stat().st_dev != source.top.stat().st_dev:
        raise UsageError(
            f"{source.git_dir} lies on another file system than {source.top}",
            hint="use --to branch or --to patch",
        )
    return WorkTree(
        top=source.top,
        stage=source.git_dir / f"patchyard-{changeset.id}",
        git=git,
        has_modes=source.has_modes,
    )


__all__ = ["HANDING", "TAKE_OUT", "WAYS", "GitHandOver"]
