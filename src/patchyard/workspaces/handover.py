"""Hand-over of a change set to the user's repository: all of it or nothing, and back again.

`plan` reads and checks; only `carry_out` and `take_back` write there, by repeatable steps.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from patchyard.clients.clones import is_clone
from patchyard.clients.git import Git
from patchyard.clients.reader import OPEN_FOLDER
from patchyard.clients.stages import sweep
from patchyard.contracts.handover import Order, Receipt
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import Conflict, PatchyardError, StateRefusal, UnknownName, UsageError
from patchyard.workspaces import forms, patches
from patchyard.workspaces.clearance import as_it_lies, require_allowed
from patchyard.workspaces.commits import UserRepository, commit, tree_with
from patchyard.workspaces.edits import Edit, Rows, Wanted, decode, nothing_at, resolve, wanted
from patchyard.workspaces.landing import Site, onto_checkout
from patchyard.workspaces.merging import (
    follow,
    is_passed_by,
    merge,
    move_index,
    move_ref,
    require_as_planned,
    require_movable,
)
from patchyard.workspaces.moves import Moves, new_token, token_of
from patchyard.workspaces.pinned import GitTrees, is_there
from patchyard.workspaces.store import Store
from patchyard.workspaces.turns import turn_in
from patchyard.workspaces.worktree import WorkTree, require_writable

HANDING = "handing.lock"  # in the home, where the checkout takes no lock
MOVES = "moves"  # the folder of our store for a repository with what hand-overs wrote
STAGE = re.compile(r"patchyard-(?:cs-)?[0-9a-f]{16,64}")  # `cs-`: of earlier versions
IN_PLACE = ("merge", "worktree")  # they write into the checkout itself
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
        self._settled: dict[str, list[Moves]] = {}  # by repository, while its turn lasts

    async def plan(self, base: Base, changeset: ChangeSet, order: Order) -> Receipt:
        """Work out and check everything; see contracts.handover."""
        return await asyncio.to_thread(self._plan, base, changeset, order)

    @asynccontextmanager
    async def turn(self, base: Base) -> AsyncIterator[None]:
        """Have one's turn in the repository; see contracts.handover."""
        store = await asyncio.to_thread(self._trees.store_of, base)
        git_dir, instead = store.source.git_dir, store.folder / HANDING
        async with turn_in(git_dir, home=self._trees.home, instead=instead) as held:
            if held is not None:
                await asyncio.to_thread(_sweep, held)
            settled = self._settled[base.repository] = []
            yield
            for moves in settled:  # not before the journal holds their end
                moves.forget()

    async def carry_out(
        self, base: Base, changeset: ChangeSet, order: Order, intent: Receipt
    ) -> Receipt:
        """Do what `intent` says; see contracts.handover."""
        if order.to != intent.to:
            raise StateRefusal(
                f"an apply to {intent.to} was begun; {order.to} was asked for",
                hint=f"finish it first: --to {intent.to}",
            )
        done = await asyncio.to_thread(self._carry_out, base, changeset, intent)
        return replace(done, is_done=True)

    async def take_back(
        self,
        base: Base,
        changeset: ChangeSet,  # noqa: ARG002 - of the contract
        receipt: Receipt,
    ) -> Sequence[str]:
        """Reverse `receipt`; see contracts.handover."""
        return await asyncio.to_thread(self._take_back, base, receipt)

    async def is_there(self, base: Base, receipt: Receipt) -> bool:
        """Whether what was handed over is there to be found; see contracts.handover."""
        return await asyncio.to_thread(self._is_there, base, receipt)

    def _is_there(self, base: Base, receipt: Receipt) -> bool:
        if receipt.to == "patch":
            return patches.is_there(receipt)
        if not receipt.commit:
            return True
        user = UserRepository(self._trees.store_of(base).source, self._trees.git_of(base))
        ref, old = receipt.undo["ref"], receipt.undo["old"]
        now = user.value(ref)
        if now == receipt.commit:
            return user.has(now, receipt.undo["parents"])
        return now not in {"", old}

    def _plan(self, base: Base, changeset: ChangeSet, order: Order) -> Receipt:
        if order.to not in WAYS:
            raise UnknownName.among("way of hand-over", order.to, WAYS)
        if order.to in IN_PLACE and is_clone(self._trees.home, Path(base.repository)):
            raise UsageError(
                f"--to {order.to} is for a checkout that you work in: {base.repository} is a clone"
                " that Patchyard keeps",
                hint="--to branch makes a branch there, for `git fetch` or `git push`; --to patch"
                " --name FILE writes a patch where you want it",
            )
        git = self._trees.git_of(base)
        if order.to != "patch" or is_there(base):
            store = self._trees.store_of(base)
            changeset = as_it_lies(git, self._trees.tracked(base), changeset, store.source)
        require_allowed(changeset, order)
        if order.to == "patch":
            return patches.plan(self._trees, base, changeset, order)
        entries = self._trees.entries(base, changeset.tree)
        rows = wanted(changeset.changes, order.paths)
        paths = [row.path for row in rows]
        if order.paths and not rows:
            raise nothing_at(order.paths)
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
            folders |= _work_tree(store, git, receipt).folders_of(edits)
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
        site.user.require_own(ref)
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

    def _carry_out(self, base: Base, changeset: ChangeSet, intent: Receipt) -> Receipt:
        if intent.to == "patch":
            patches.write(self._trees, base, changeset, intent)
            return intent
        return self._hand_over(base, intent, self._trees.store_of(base))

    def _hand_over(self, base: Base, intent: Receipt, store: Store) -> Receipt:
        git = self._trees.git_of(base)
        user = UserRepository(store.source, git)
        undo = intent.undo
        is_done = bool(intent.commit) and user.value(undo["ref"]) == intent.commit
        if intent.commit and not (is_done and user.has(intent.commit, undo["parents"])):
            user.send(intent.commit, undo["parents"])
            user.keep_large(undo["large"])
            user.sync()
        if "edits" not in undo:
            move_ref(user, intent)
            return intent
        moves = self._moves(store, intent)
        tree = _work_tree(store, git, intent, moves)
        edits = decode(undo["edits"])
        if is_done:  # the ref moves last
            move_ref(user, intent)
        else:
            self._write(tree, user, intent, edits, like=base.tree)
        self._settled.setdefault(base.repository, []).append(moves)
        others = tree.of_others(edits, like=base.tree)
        return _without(intent, {edit.path for edit in others})

    def _write(
        self,
        tree: WorkTree,
        user: UserRepository,
        intent: Receipt,
        edits: Sequence[Edit],
        *,
        like: str,
    ) -> None:
        """Write work tree, index and ref, or nothing of them."""
        try:
            check = partial(require_as_planned, user, intent)
            done = tree.carry_out(edits, like=like, check=check)
            try:
                check()
                follow(user, intent)
            except PatchyardError as error:  # a merge is all or nothing
                raise tree.undone(error, done, like=like) from error
        except PatchyardError as error:
            done, _ = tree.sorted_out(edits, like=like)
            others = {edit.path for edit in tree.of_others(done, like=like)}
            ours = [edit.path for edit in done if edit.path not in others]
            if ours:
                raise _half_in(error, ours) from error
            tree.moves.forget()
            raise

    def _moves(self, store: Store, intent: Receipt) -> Moves:
        """Return the record of what a hand-over wrote; an earlier version kept none."""
        token = token_of(intent.undo)
        return Moves(store.folder / MOVES / token) if token else Moves(is_whole=False)

    def _take_back(self, base: Base, receipt: Receipt) -> Sequence[str]:
        if receipt.to == "patch":
            is_back = patches.remove(receipt) or not receipt.is_done
            return receipt.touched if is_back else ()
        return self._reverse(base, receipt, self._trees.store_of(base))

    def _reverse(self, base: Base, receipt: Receipt, store: Store) -> Sequence[str]:
        git = self._trees.git_of(base)
        user = UserRepository(store.source, git)
        undo = receipt.undo
        is_passed = not receipt.is_done and is_passed_by(user, receipt)
        if receipt.commit and not is_passed:
            require_movable(user, receipt)
        back = receipt.touched
        if "edits" in undo:
            if not receipt.is_done and user.value(undo.get("ref", "")) != receipt.commit:
                moves = self._moves(store, receipt)
                written = _work_tree(store, git, receipt, moves)
                undo = _unchanged(written, user, undo, like=base.tree, is_passed=is_passed)
                back = tuple(edit.path for edit in decode(undo["edits"]))
                self._settled.setdefault(base.repository, []).append(moves)
            try:
                _put_back(_work_tree(store, git, receipt), user, undo, like=base.tree)
            except Conflict as error:
                raise Conflict(error.message, hint=TAKE_OUT, details=error.details) from error
        if receipt.commit and not is_passed:
            user.move(undo["ref"], undo["old"], receipt.commit, reason="patchyard: unapply")
        return back


def _without(intent: Receipt, others: AbstractSet[str]) -> Receipt:
    """Return what is to be remembered of a hand-over: not what others wrote of it meanwhile."""
    if not others:
        return intent
    kept = [edit for edit in decode(intent.undo["edits"]) if edit.path not in others]
    touched = intent.touched if intent.commit else tuple(edit.path for edit in kept)
    return replace(intent, touched=touched, undo={**intent.undo, "edits": Rows(kept)})


def _sweep(git_dir: int) -> None:
    """Delete the stages of hand-overs that were killed, of whichever home: the turn is ours."""
    at = os.open(".", OPEN_FOLDER, dir_fd=git_dir)
    try:
        with os.scandir(at) as listed:
            names = [entry.name for entry in listed if STAGE.fullmatch(entry.name)]
        for name in names:
            sweep(name, at)
    finally:
        os.close(at)


def _half_in(error: PatchyardError, written: Sequence[str]) -> PatchyardError:
    """Return `error` for a hand-over of which an earlier, killed life wrote a part."""
    why = error.message.replace("nothing was changed", "nothing more was changed")
    return type(error)(
        f"an apply was cut short and cannot be finished: {why};"
        f" of the change, {', '.join(written[:8])} is in already",
        hint=f"{error.hint}; {FINISH}" if "lock" in error.details else FINISH,
        details={**error.details, "written": list(written)},
    )


def _unchanged(
    tree: WorkTree, user: UserRepository, undo: Mapping[str, Any], *, like: str, is_passed: bool
) -> dict[str, Any]:
    """Return what can be reversed of a hand-over cut short: all but newer work, left as it is.

    With `is_passed` the branch went on without it: what is staged or committed since stays, too.
    """
    done, to_do = tree.sorted_out(decode(undo["edits"]), like=like)
    staged = decode(undo.get("index", ()))
    now = user.index([edit.path for edit in staged])
    others = {edit.path for edit in tree.of_others(done, like=like)}
    if is_passed:
        others |= {edit.path for edit in staged if now.get(edit.path) != edit.before}
    kept = [edit for edit in staged if now.get(edit.path) in (edit.before, edit.after)]
    return {
        **undo,
        "edits": Rows([edit for edit in (*done, *to_do) if edit.path not in others]),
        "index": Rows([] if is_passed else kept),
    }


def _put_back(tree: WorkTree, user: UserRepository, undo: Mapping[str, Any], *, like: str) -> None:
    """Reverse what was done to the work tree, and to the index where that followed."""
    tree.carry_out([edit.reversed() for edit in decode(undo["edits"])], like=like)
    move_index(user, [edit.reversed() for edit in decode(undo.get("index", ()))])


def _receipt(to: str, edits: Sequence[Edit]) -> Receipt:
    return Receipt(
        to=to,
        is_done=False,
        touched=tuple(edit.path for edit in edits),
        undo={"edits": Rows(edits), "token": new_token()},
    )


def _work_tree(store: Store, git: Git, receipt: Receipt, moves: Moves | None = None) -> WorkTree:
    source = store.source
    if source.git_dir.stat().st_dev != source.top.stat().st_dev:
        raise UsageError(
            f"{source.git_dir} lies on another file system than {source.top}",
            hint="use --to branch or --to patch",
        )
    token = token_of(receipt.undo) or new_token()
    return WorkTree(
        top=source.top,
        stage=source.git_dir / f"patchyard-{token}",
        git=git,
        has_modes=source.has_modes,
        moves=Moves() if moves is None else moves,
    )


__all__ = ["HANDING", "TAKE_OUT", "WAYS", "GitHandOver"]
