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
    """Return the rows; one that fails for what an earlier row says names that row instead."""
    first: dict[tuple[str, str], str] = {}
    rows = []
    for row in findings:
        why = (row.said, row.cure)
        earlier = row.name if row.is_good else first.setdefault(why, row.name)
        is_told = earlier != row.name
        rows.append(replace(row, said=f"see {earlier}", cure="") if is_told else row)
    return rows


__all__ = ["Finding", "bad", "good", "misread", "told_once"]
