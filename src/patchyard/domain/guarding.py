"""Paths that a project or a repository protects beside the shipped list, as findings."""

from collections.abc import Sequence
from dataclasses import replace

from patchyard.domain.changeset import ChangeSet, Finding, FindingKind
from patchyard.domain.links import NO_LINKS, TreeLinks
from patchyard.domain.name_patterns import NamePatterns, from_top
from patchyard.domain.protected import is_allowed
from patchyard.domain.tree_names import TreeNames


def guarded(changeset: ChangeSet, globs: Sequence[str], links: TreeLinks = NO_LINKS) -> ChangeSet:
    """Return the change set with a blocking finding for each changed path that a glob names.

    A path counts by its own name, without case, and by each that links of base or result give it.
    Its id stays: the globs are part of the plan, not of its result.
    """
    if not globs:
        return changeset
    patterns = NamePatterns([pattern for glob in globs for pattern in from_top(glob)])
    named = TreeNames(changeset.changes, links).matching(patterns)
    known = {finding.path for finding in changeset.findings}
    paths = {path for c in changeset.changes for path in (c.path, c.old_path) if path}
    found = tuple(
        Finding(
            kind=FindingKind.PROTECTED_PATH,
            path=path,
            message="this project's settings protect it",
        )
        for path in sorted(paths - known)
        if path in named or is_allowed(path, tuple(globs))
    )
    return replace(changeset, findings=(*changeset.findings, *found)) if found else changeset


__all__ = ["guarded"]
