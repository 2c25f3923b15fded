"""A line of the list of protected paths: which tool runs or obeys which files, and who says so."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ProtectedEntry:
    """Files that one tool runs or obeys without being told to."""

    tool: str
    does: str  # what the tool does with them: "runs ...", "reads ..."
    source: str  # the tool's own page that says so
    patterns: tuple[str, ...]  # lower case, for any folder; `X/*` is X and all below it


def entry(tool: str, does: str, source: str, *patterns: str) -> ProtectedEntry:
    """Return a line of the list."""
    return ProtectedEntry(tool=tool, does=does, source=source, patterns=patterns)


__all__ = ["ProtectedEntry", "entry"]
