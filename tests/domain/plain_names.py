"""A changed file in a tree without links, held against patterns."""

from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.domain.links import TreeLinks
from patchyard.domain.name_patterns import NamePatterns
from patchyard.domain.tree_names import TreeNames


def alone(path: str) -> TreeNames:
    """Return the names of one new file."""
    change = Change(path=path, status=ChangeStatus.ADDED, mode="100644")
    return TreeNames([change], TreeLinks(top="/top"))


def pattern_of(patterns: NamePatterns, path: str) -> str:
    """Return the pattern that the file's name fits; empty for none."""
    match = alone(path).matching(patterns).get(path)
    return match.pattern if match else ""


__all__ = ["alone", "pattern_of"]
