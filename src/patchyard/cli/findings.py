"""One thing that `doctor` looked at, and how it is made of an error."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchyard.domain.errors import PatchyardError, UsageError


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    name: str
    is_good: bool
    is_needed: bool  # a missing one makes the exit code 1
    said: str
    cure: str = ""
    is_mistake: bool = False  # a file or a variable says what cannot be: the exit code is 2


def good(name: str, said: str) -> Finding:
    """Return the row of what works."""
    return Finding(name=name, is_good=True, is_needed=False, said=said)


def bad(name: str, error: PatchyardError, *, is_needed: bool = False) -> Finding:
    """Return the row of what does not work."""
    return Finding(
        name=name, is_good=False, is_needed=is_needed, said=error.message, cure=error.hint
    )


def misread(name: str, error: PatchyardError) -> Finding:
    """Return the row of settings that a command has failed over: a mistake where they are wrong."""
    return replace(bad(name, error), is_mistake=isinstance(error, UsageError))


def told_once(findings: Sequence[Finding]) -> list[Finding]:
    """Return the rows; of those that fail for one reason, one tells it and the others name that.

    The one is a mistake before what is needed before others.
    """
    tells: dict[tuple[str, str], str] = {}
    failing = [row for row in findings if not row.is_good]
    for row in sorted(failing, key=lambda row: (not row.is_mistake, not row.is_needed)):
        tells.setdefault((row.said, row.cure), row.name)
    return [
        row
        if row.is_good or tells[row.said, row.cure] == row.name
        else replace(row, said=f"see {tells[row.said, row.cure]}", cure="")
        for row in findings
    ]


__all__ = ["Finding", "bad", "good", "misread", "told_once"]
