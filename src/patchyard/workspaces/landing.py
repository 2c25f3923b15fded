"""What a hand-over looks at, and the edits that bring a change set into the user's work tree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from patchyard.clients.git import Git
from patchyard.clients.reader import Reader
from patchyard.contracts.handover import Order
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import StateRefusal
from patchyard.workspaces.commits import UserRepository
from patchyard.workspaces.edits import (
    Content,
    Edit,
    Wanted,
    as_known,
    in_the_way,
    keep_present,
    present,
    require_room,
    resolve,
)
from patchyard.workspaces.forms import Forms
from patchyard.workspaces.store import Store


@dataclass(frozen=True, kw_only=True)
class Site:
    """Everything one hand-over looks at."""

    base: Base
    changeset: ChangeSet
    order: Order
    git: Git  # looks at our store
    store: Store
    user: UserRepository
    forms: Forms


def onto_checkout(site: Site, rows: Sequence[Wanted]) -> list[Edit]:
    """Return the edits that bring `rows` into the user's work tree. Raises Conflict."""
    clashes: list[str] = []
    like = site.base.tree
    source = site.store.source
    if source.folds_case:
        _require_distinct(rows)
    going = frozenset(row.path for row in rows if row.new is None)
    with Reader(source.top) as reader:
        found = {row.path: present(reader, row.path, going, like=like) for row in rows}
        if not source.has_modes:
            found = {row.path: as_known(found[row.path], row.new, row.old) for row in rows}
        for row in rows:
            if found[row.path] is None and row.new is not None:
                require_room(reader, row.path, going)
        unknown = [
            row.path
            for row in rows
            if found[row.path] is not None and found[row.path] not in (row.old, row.new)
        ]
        keep_present(site.git, reader, unknown, like=like)
    edits = []
    for row in rows:
        now = found[row.path]
        after = _after(site, row, now, clashes.append)
        if after != now:
            edits.append(Edit(path=row.path, before=now, after=after))
    if clashes:
        raise in_the_way(clashes, "changed in the same place")
    return edits


def _require_distinct(rows: Sequence[Wanted]) -> None:
    """Raise StateRefusal for names that one file system takes for the same."""
    seen: dict[str, str] = {}
    for row in rows:
        other = seen.setdefault(row.path.casefold(), row.path)
        if other != row.path:
            raise StateRefusal(
                f"{other} and {row.path} are one file on this file system, which folds case",
                hint="use --to branch, or apply in a checkout where the two are told apart",
                details={"paths": [other, row.path]},
            )


def _after(
    site: Site, row: Wanted, now: Content | None, clash: Callable[[str], None]
) -> Content | None:
    """Return what a path of the checkout comes to, by its committed form where that differs."""
    is_raw = row.path in site.base.filtered or row.old is None
    if now in (row.old, row.new) or is_raw or not site.forms.converts(row.path):
        return resolve(site.git, row, now, clash)
    here = site.forms.normalised(row.path, now)
    after = resolve(site.git, row, here, clash)
    return now if after == here else site.forms.raw(row.path, after)


__all__ = ["Site", "onto_checkout"]
