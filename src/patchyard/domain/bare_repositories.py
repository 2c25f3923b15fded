"""Folders that git takes for a repository although nothing there is called `.git`.

Git that runs in such a folder, or below it, obeys the `config` in it and runs its hooks.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from patchyard.domain.changeset import Change, Finding, FindingKind
from patchyard.domain.names import folded

HEAD = "HEAD"
#: With HEAD one of these sets makes a git directory (gitrepository-layout(5)).
COMPLETED: tuple[frozenset[str], ...] = (
    frozenset({"commondir"}),
    frozenset({"objects", "refs"}),
)
PARTS: tuple[str, ...] = (HEAD, *sorted(frozenset[str]().union(*COMPLETED)))
PART = re.compile(rf"(?i)/(?:{'|'.join(PARTS)})")


def bare_repositories(changes: Iterable[Change], known: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for each path that is written in a folder which git takes for a repository.

    `known` are further paths that the folders have: those of the base, and of the checkout. Only
    those count that `may_name_part`. What the changes delete still counts among them, since not all
    of a change has to be applied.
    """
    written = [change.path for change in changes if change.mode is not None]
    folders = _taken_for_git((*written, *known))
    for path in written if folders else ():
        found = next((each for each in folders_above(folded(path)) if each in folders), None)
        if found is not None:
            shown = path[: _length(path, found)]
            yield Finding(
                kind=FindingKind.NESTED_GIT,
                path=path,
                message=f"git takes {shown!r} for a repository and obeys what lies there",
            )


def may_name_part(path: str) -> bool:
    """Whether a path may name a part of a git directory; of most it is known at once.

    They have no part, and no letter to be folded.
    """
    return not path.isascii() or PART.search(path) is not None


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders above a path, the innermost first; the top of the tree is none of them."""
    while path := path.rpartition("/")[0]:
        yield path


def _taken_for_git(paths: Iterable[str]) -> frozenset[str]:
    """Return the folders, folded, whose entries make them git directories."""
    parts = {folded(name): name for name in PARTS}
    found: Mapping[str, set[str]] = defaultdict(set)
    for path in filter(may_name_part, paths):
        names = folded(path).split("/")
        for number, name in enumerate(names[1:], start=1):
            if name in parts:
                found["/".join(names[:number])].add(parts[name])
    return frozenset(
        folder
        for folder, names in found.items()
        if HEAD in names and any(each <= names for each in COMPLETED)
    )


def _length(path: str, folder: str) -> int:
    """Return how much of `path` is `folder`; folding keeps the number of components."""
    names = path.split("/")[: folder.count("/") + 1]
    return len("/".join(names))


__all__ = ["PARTS", "bare_repositories", "folders_above", "may_name_part"]
