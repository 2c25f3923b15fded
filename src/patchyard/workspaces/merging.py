"""Hand-over as a merge: the commit, and how work tree, index and branch come to it."""

from collections.abc import Sequence
from dataclasses import replace

from patchyard.clients.git import failure
from patchyard.contracts.handover import Receipt
from patchyard.domain.changeset import Change
from patchyard.domain.errors import Conflict, PatchyardError, StateRefusal
from patchyard.workspaces.commits import UserRepository, commit
from patchyard.workspaces.comparison import compare
from patchyard.workspaces.edits import Content, Edit, Rows, Wanted, decode, in_the_way, wanted
from patchyard.workspaces.landing import Site, onto_checkout
from patchyard.workspaces.moves import new_token


def merge(site: Site, new: str) -> Receipt:
    """Plan a commit or merge onto the current branch, with index and work tree following."""
    ref, head = site.user.head()
    if not ref:
        raise StateRefusal(
            "the checkout is on no branch, so there is nothing to merge into",
            hint="git switch BRANCH first, or use --to branch",
        )
    site.user.require_own(ref)
    result = new if head == site.base.commit else _merged(site, head, new)
    rows = wanted(compare(site.git, f"{head}^{{tree}}", f"{result}^{{tree}}"))
    staged = site.user.index([row.path for row in rows])
    changed = [row.path for row in rows if staged.get(row.path) not in (row.old, row.new)]
    if changed:
        raise in_the_way(changed, "is staged with other content")
    edits = onto_checkout(site, _raw_rows(site, rows))
    index = [Edit(path=row.path, before=staged.get(row.path), after=row.new) for row in rows]
    return Receipt(
        to="merge",
        is_done=False,
        touched=tuple(row.path for row in rows),
        commit=result,
        reference=ref.removeprefix("refs/heads/"),
        undo={
            "ref": ref,
            "old": head,
            "parents": [head],
            "large": dict(site.forms.large),
            "edits": Rows(edits),
            "index": Rows(index),
            "token": new_token(),
        },
    )


def _raw_rows(site: Site, rows: Sequence[Wanted]) -> list[Wanted]:
    """Return a commit's rows in the bytes of the checkout, where the base knows both forms."""
    changes = {change.path: change for change in site.changeset.changes}
    return [_raw_row(site, row, changes.get(row.path)) for row in rows]


def _raw_row(site: Site, row: Wanted, change: Change | None) -> Wanted:
    """`change` is what the change set does to the row's path."""
    if change is None:
        return row
    old, new = row.old, row.new
    pair = site.base.filtered.get(row.path)
    if pair is not None and old is not None and old[1] == pair.normalised:
        old = (change.mode or "", pair.raw)
    if change.mode is not None and change.blob is not None:
        raw = (change.mode, change.blob)
        if new is not None and site.forms.normalised(row.path, raw) == new:
            new = raw
    return replace(row, old=old, new=new)


def _merged(site: Site, head: str, new: str) -> str:
    """Merge `new` with the branch's newer head by git's own merge, on trees alone."""
    site.store.history(head)
    done = site.git.attempt("merge-tree", "--write-tree", "-z", "--name-only", head, new)
    fields = done.out.decode("utf-8", "surrogateescape").split("\0")
    if done.code not in {0, 1}:
        raise failure(["merge-tree"], done.code, done.err)
    if done.code == 1:
        names = fields[1 : fields.index("", 1)] if "" in fields[1:] else fields[1:]
        raise in_the_way(names or [head], "changed in the branch's newer commits")
    return commit(site.git, site.base, fields[0], [head, new], site.order.message)


def require_as_planned(user: UserRepository, intent: Receipt) -> None:
    """Raise Conflict where branch or index are not what the merge was worked out for."""
    if not intent.commit:
        return
    ref, head = user.head()
    if (ref, head) != (intent.undo["ref"], intent.undo["old"]):
        now = ref.removeprefix("refs/heads/") or "no branch"
        raise Conflict(
            f"the checkout is on {now} at {head[:12]} by now, nothing was changed: the merge was"
            f" worked out for {intent.reference} at {intent.undo['old'][:12]}",
            hint=f"git switch {intent.reference} and apply again",
        )
    _staged(user, decode(intent.undo.get("index", ())))


def follow(user: UserRepository, intent: Receipt) -> None:
    """Let index and ref follow the work tree; the index goes back where the ref cannot move."""
    edits = decode(intent.undo.get("index", ()))
    before = _staged(user, edits)
    move_index(user, edits)
    try:
        move_ref(user, intent)
    except PatchyardError:
        user.set_index({e.path: before.get(e.path) for e in edits if before.get(e.path) != e.after})
        raise


def move_ref(user: UserRepository, intent: Receipt) -> None:
    """Bring the branch to the commit, where there is one. Raises Conflict."""
    if intent.commit:
        undo = intent.undo
        user.move(undo["ref"], intent.commit, undo["old"], reason=f"patchyard: {intent.to}")


def is_passed_by(user: UserRepository, receipt: Receipt) -> bool:
    """Whether the branch of a hand-over cut short went on without its commit."""
    if not receipt.commit or "edits" not in receipt.undo:
        return False
    return user.value(receipt.undo["ref"]) not in {receipt.commit, receipt.undo["old"]}


def require_movable(user: UserRepository, receipt: Receipt) -> None:
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


def _staged(user: UserRepository, edits: Sequence[Edit]) -> dict[str, Content]:
    """Return what the index has at these paths. Raises Conflict for a third thing."""
    now = user.index([edit.path for edit in edits])
    odd = [edit.path for edit in edits if now.get(edit.path) not in (edit.before, edit.after)]
    if odd:
        raise in_the_way(odd, "was staged meanwhile")
    return now


def move_index(user: UserRepository, edits: Sequence[Edit]) -> None:
    """Bring the index to what the edits say, on the disk too. Raises Conflict for a third thing."""
    if not edits:
        return
    now = _staged(user, edits)
    user.set_index({e.path: e.after for e in edits if now.get(e.path) != e.after})


__all__ = [
    "follow",
    "is_passed_by",
    "merge",
    "move_index",
    "move_ref",
    "require_as_planned",
    "require_movable",
]
