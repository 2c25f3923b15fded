"""Hand-over as a merge: the commit, and the edits of index and work tree that follow it."""

from dataclasses import replace

from patchyard.clients.git import failure
from patchyard.contracts.handover import Receipt
from patchyard.domain.errors import StateRefusal
from patchyard.workspaces.commits import commit
from patchyard.workspaces.comparison import compare
from patchyard.workspaces.edits import Content, Edit, Wanted, in_the_way, wanted
from patchyard.workspaces.landing import Site, onto_checkout


def merge(site: Site, new: str) -> Receipt:
    """Plan a commit or merge onto the current branch, with index and work tree following."""
    ref, head = site.user.head()
    if not ref:
        raise StateRefusal(
            "the checkout is on no branch, so there is nothing to merge into",
            hint="git switch BRANCH first, or use --to branch",
        )
    result = new if head == site.base.commit else _merged(site, head, new)
    rows = wanted(compare(site.git, f"{head}^{{tree}}", f"{result}^{{tree}}"))
    staged = site.user.index([row.path for row in rows])
    changed = [row.path for row in rows if staged.get(row.path) not in (row.old, row.new)]
    if changed:
        raise in_the_way(changed, "is staged with other content")
    edits = onto_checkout(site, [_raw_row(site, row) for row in rows])
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
            "edits": [edit.as_list() for edit in edits],
            "index": [edit.as_list() for edit in index],
        },
    )


def _raw_row(site: Site, row: Wanted) -> Wanted:
    """Return a commit's row in the bytes of the checkout, where the base knows both forms."""
    by_blob = {
        (change.path, pair.normalised): (change.mode or "", pair.raw)
        for change in site.changeset.changes
        if (pair := site.base.filtered.get(change.path)) is not None
    }
    old = by_blob.get((row.path, row.old[1]), row.old) if row.old else None
    return replace(row, old=old, new=_raw_result(site, row))


def _raw_result(site: Site, row: Wanted) -> Content | None:
    for change in site.changeset.changes:
        if change.path == row.path and change.mode is not None and change.blob is not None:
            raw = (change.mode, change.blob)
            if row.new is not None and site.forms.normalised(row.path, raw) == row.new:
                return raw
    return row.new


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


__all__ = ["merge"]
