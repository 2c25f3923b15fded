"""What needs a person's word before a change set is handed over, in the checkout as it lies now.

Findings of the change set, and protected names that only this checkout gives: by links that the
base does not have, and by the user's own git settings, which are read as data.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from patchyard.clients.git import Git
from patchyard.clients.reader import Reader
from patchyard.contracts.handover import Order
from patchyard.domain.bare_repositories import PARTS, bare_repositories, folders_above
from patchyard.domain.changeset import ChangeSet, Finding, FindingKind
from patchyard.domain.errors import StateRefusal
from patchyard.domain.git_settings import HOOKS, HOOKS_PATH, Obeyed, obeyed
from patchyard.domain.links import TreeLinks
from patchyard.domain.name_patterns import NamePattern, NamePatterns
from patchyard.domain.protected import is_allowed, protection
from patchyard.domain.tree_names import TreeNames
from patchyard.workspaces.edits import wanted
from patchyard.workspaces.sight import Tracked
from patchyard.workspaces.source import Source
from patchyard.workspaces.treelinks import links_of
from patchyard.workspaces.view import HOME_KEY

OURS = "\0"  # begins names of ours, which no path in a tree has


def as_it_lies(git: Git, tracked: Tracked, changeset: ChangeSet, source: Source) -> ChangeSet:
    """Return the change set with the findings that the checkout adds.

    `git` looks at the store, `tracked` are the base's entries.
    """
    links = links_of(git, tracked.links, changeset.changes, top=str(source.top))
    links = replace(links, before={**links.before, **_top_links(source, links)})
    known = {finding.path for finding in changeset.findings}
    lying = (*tracked.parts_of_git, *_parts_of_git(source, changeset))
    found = {each.path: each for each in bare_repositories(changeset.changes, lying)}
    found |= {each.path: each for each in _by_settings(changeset, links, source)}
    found |= {each.path: each for each in protection(TreeNames(changeset.changes, links))}
    further = tuple(each for path, each in sorted(found.items()) if path not in known)
    return replace(changeset, findings=(*changeset.findings, *further))


def _top_links(source: Source, links: TreeLinks) -> dict[str, str]:
    """Return the links at the top of the checkout that neither base nor result has."""
    known = {*links.before, *links.after}
    with os.scandir(source.top) as listed:
        return {
            entry.name: str(Path(entry.path).readlink())
            for entry in listed
            if entry.is_symlink() and entry.name not in known
        }


def _parts_of_git(source: Source, changeset: ChangeSet) -> Iterator[str]:
    """Yield what the checkout's folders above the changes have of a git directory."""
    written = (change.path for change in changeset.changes if change.mode is not None)
    folders = {folder for path in written for folder in folders_above(path)}
    with Reader(source.top) as reader:
        for folder in sorted(folders):
            for path in (f"{folder}/{name}" for name in PARTS):
                if reader.status(path) is not None:
                    yield path


def _by_settings(changeset: ChangeSet, links: TreeLinks, source: Source) -> Iterator[Finding]:
    """Yield a finding for each changed path that git would read or run by a setting of the user."""
    named: dict[str, Obeyed] = {}
    further: dict[str, str] = {}
    patterns: list[NamePattern] = []
    top = str(source.top)
    for each in obeyed(source.git_settings, home=source.settings.get(HOME_KEY, "")):
        place = str(source.top / each.path)
        real = os.path.realpath(place)
        for target in {place, real}:
            if f"{target}/".startswith(f"{top}/"):
                name = f"{OURS}{len(further)}"
                named[name], further[name] = each, target
                below = _below(each, is_top=real == top)
                patterns += [NamePattern(shown=name, components=(name, *row)) for row in below]
    if not patterns:
        return
    names = TreeNames(changeset.changes, links, further=further)
    for path, match in names.matching(NamePatterns(patterns)).items():
        each = named[match.pattern]
        yield Finding(
            kind=FindingKind.PROTECTED_PATH,
            path=path,
            message=f"read or run by your git setting {each.key} = {each.value}",
        )


def _below(each: Obeyed, *, is_top: bool) -> list[tuple[str, ...]]:
    """Return which names below a place count: of the top as a folder of hooks, only hooks."""
    if not is_top:
        return [()]
    return [(hook,) for hook in HOOKS] if each.key == HOOKS_PATH else []


def require_allowed(changeset: ChangeSet, order: Order) -> None:
    """Raise StateRefusal for findings that block and that no `--allow-path` names."""
    written = {row.path for row in wanted(changeset.changes, order.paths)}
    open_ones = [
        finding
        for finding in changeset.findings
        if finding.blocks_apply
        and (
            not order.paths
            or finding.path in written
            or any(_covers(path, finding.path) for path in order.paths)
        )
        and not is_allowed(finding.path, order.allow_paths)
    ]
    if not open_ones:
        return
    listed = "; ".join(f"{each.path!r}: {each.message}" for each in open_ones[:5])
    options = " ".join(f"--allow-path {each.path!r}" for each in open_ones[:5])
    count = "1 finding needs" if len(open_ones) == 1 else f"{len(open_ones)} findings need"
    raise StateRefusal(
        f"{count} your eye first: {listed}",
        hint=f"look at them, then allow them: {options}",
        details={"paths": sorted({each.path for each in open_ones})},
    )


def _covers(chosen: str, path: str) -> bool:
    return path == chosen or path.startswith(f"{chosen.rstrip('/')}/")


__all__ = ["as_it_lies", "require_allowed"]
