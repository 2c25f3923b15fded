"""Paths that a project or a repository protects beside the shipped list, as findings."""

from collections.abc import Sequence
from dataclasses import replace

from patchyard.domain.changeset import ChangeSet, Finding, FindingKind
from patchyard.domain.protected import is_allowed


def guarded(changeset: ChangeSet, globs: Sequence[str]) -> ChangeSet:
    """Return the change set with a blocking finding for each changed path that a glob names.

    Its id stays: the globs are part of the plan, not of what came of it.
    """
    known = {finding.path for finding in changeset.findings}
    paths = {path for c in changeset.changes for path in (c.path, c.old_path) if path}
    found = tuple(
        Finding(
            kind=FindingKind.PROTECTED_PATH,
            path=path,
            message="this project's settings protect it",
        )
        for path in sorted(paths - known)
        if is_allowed(path, tuple(globs))
    )
    return replace(changeset, findings=(*changeset.findings, *found)) if found else changeset


__all__ = ["guarded"]
