"""Paths that run by themselves or steer agents: a change to one needs `--allow-path`."""

import fnmatch
import functools
from collections.abc import Iterator

from patchyard.domain.agent_files import AGENT_FILES
from patchyard.domain.changeset import Finding, FindingKind
from patchyard.domain.name_patterns import NamePatterns, below_any
from patchyard.domain.package_settings import PACKAGE_SETTINGS
from patchyard.domain.pipeline_files import PIPELINES
from patchyard.domain.protected_entry import ProtectedEntry
from patchyard.domain.self_starting import SELF_STARTING
from patchyard.domain.tree_names import TreeNames

ENTRIES: tuple[ProtectedEntry, ...] = (
    *SELF_STARTING,
    *PACKAGE_SETTINGS,
    *PIPELINES,
    *AGENT_FILES,
)


@functools.cache
def _patterns() -> NamePatterns:
    """Return the list as patterns that can be followed through links."""
    return NamePatterns([below_any(pattern) for each in ENTRIES for pattern in each.patterns])


@functools.cache
def _entry_of(pattern: str) -> ProtectedEntry:
    return next(each for each in ENTRIES if pattern in each.patterns)


def protection(names: TreeNames) -> Iterator[Finding]:
    """Yield a finding for each changed path that the list protects under one of its names."""
    for path, match in names.matching(_patterns()).items():
        by = f", by the link {match.link!r}" if match.link else ""
        entry = _entry_of(match.pattern)
        yield Finding(
            kind=FindingKind.PROTECTED_PATH,
            path=path,
            message=f"runs by itself or steers agents ({match.pattern}{by};"
            f" {entry.tool} {entry.does})",
        )


def is_allowed(path: str, globs: tuple[str, ...]) -> bool:
    """Whether one of the user's `--allow-path` globs names `path`."""
    return any(
        path == glob or fnmatch.fnmatchcase(path, glob) or path.startswith(f"{glob.rstrip('/')}/")
        for glob in globs
    )


__all__ = ["ENTRIES", "is_allowed", "protection"]
