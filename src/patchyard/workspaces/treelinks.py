"""Reads the symbolic links of a base and of a result over it, from our store alone."""

import os
import threading
from collections.abc import Iterable, Mapping, Sequence

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.git import Git
from patchyard.domain.changeset import Base, Change
from patchyard.domain.links import LINK, TreeLinks

MOST_KEPT = 20_000  # changes of which the links are remembered


def links_of(
    git: Git, before: Mapping[str, str], changes: Sequence[Change], *, top: str
) -> TreeLinks:
    """Return the links of a base and those that the changes make of them.

    `git` looks at the store; `before` has the base's links, the blob by path; `top` is the absolute
    path of the checkout.
    """
    after = dict(before)
    for change in changes:
        after.pop(change.old_path or change.path, None)
        after.pop(change.path, None)
        if change.mode == LINK and change.blob is not None:
            after[change.path] = change.blob
    wanted = sorted({*before.values(), *after.values()})
    if not wanted:
        return TreeLinks(top=top)
    with BlobReader(git) as reader:
        targets = {blob: os.fsdecode(raw) for blob, raw in reader.contents(wanted)}
    return TreeLinks(
        top=top,
        before={path: targets[blob] for path, blob in before.items()},
        after={path: targets[blob] for path, blob in after.items()},
        mixed=_mixed({*before, *after}, changes),
    )


class LastLinks:
    """The links that were asked for last: one round of work asks for the same some four times."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[Base, tuple[Change, ...], TreeLinks] | None = None

    def of(
        self, git: Git, before: Mapping[str, str], base: Base, changes: Sequence[Change]
    ) -> TreeLinks:
        """Return the links of `base`, which are `before`, and of the changes over it."""
        with self._lock:
            last = self._last
        if last is not None and last[:2] == (base, tuple(changes)):
            return last[2]
        links = links_of(git, before, changes, top=base.repository)
        if len(changes) <= MOST_KEPT:
            with self._lock:
                self._last = (base, tuple(changes), links)
        return links


def _mixed(links: set[str], changes: Iterable[Change]) -> frozenset[str]:
    """Return the links where one of both trees has a file, or a folder with what changed below."""
    found: set[str] = set()
    for change in changes:
        sides = ((change.old_path or change.path, change.old_mode), (change.path, change.mode))
        for path, mode in sides:
            at = path if mode not in {None, LINK} else path.rpartition("/")[0]
            while at and at not in found:
                found.add(at)
                at = at.rpartition("/")[0]
    return frozenset(found & links)


__all__ = ["MOST_KEPT", "LastLinks", "links_of"]
