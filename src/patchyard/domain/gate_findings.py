"""What gates find, and which of it is new: the same thing in another line is not."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256

from patchyard.domain.gates import Severity

MOST_FINDINGS = 10_000  # of one report; what is more is refused, since nobody could compare it
MESSAGE_CHARS = 500
NUMBERED = "\0"  # before a line number that stands for its text
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, kw_only=True)
class GateFinding:
    """One thing that a gate found in a tree."""

    path: str = ""  # relative, POSIX; empty: of no file, or of one that is not in the tree
    line: int = 0  # 1 for the first; 0: of the whole file
    rule: str = ""  # the tool's own name of what is wrong
    severity: Severity = Severity.WARNING
    message: str = ""
    subject: str = ""  # what it is about where that is no line: a test's name
    text: str = ""  # of the line, where the file was changed; filled in by the engine
    fingerprint: str = ""  # likewise


class UnreadableReport(ValueError):
    """A report is not of the form that its gate names, or beyond the limits; says what is wrong."""


class NothingToGoBy(UnreadableReport):
    """What a gate compares with is not on this machine."""


class Outcome(StrEnum):
    """What one test came to."""

    FAILED = "failed"
    PASSED = "passed"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a report says of one tree."""

    findings: tuple[GateFinding, ...] = ()
    tests: Mapping[str, Outcome] = field(default_factory=dict)  # by name
    lines: Mapping[str, Mapping[int, bool]] = field(default_factory=dict)  # covered, by path
    number: float | None = None  # what was measured; less is better


def marked(finding: GateFinding, *, path: str | None = None) -> GateFinding:
    """Return the finding with its fingerprint, which no line number is part of.

    `path` is the name that its file has in the other tree.
    """
    where = finding.path if path is None else path
    stands = finding.text.strip() or _DIGITS.sub("#", finding.message)
    parts = (finding.subject,) if finding.subject else (where, finding.rule, stands)
    digest = sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    return replace(finding, fingerprint=digest[:16])


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The findings of the result beside those of the base."""

    new: tuple[GateFinding, ...]
    old: int  # that the base has too
    gone: int  # that only the base has


def difference(
    before: Iterable[GateFinding],
    after: Iterable[GateFinding],
    *,
    renamed: Mapping[str, str],
    is_changed: Callable[[GateFinding], bool],
) -> Difference:
    """Return which findings are new. `renamed` gives new names of files by their old ones.

    Of several alike, those on changed lines are the new ones. What vanished from one file and
    stands in another with the same rule and text was moved.
    """
    known = [marked(each, path=renamed.get(each.path, each.path)) for each in before]
    left = Counter(each.fingerprint for each in known)
    unmatched = []
    for each in sorted(map(marked, after), key=lambda one: (is_changed(one), one.path, one.line)):
        if left[each.fingerprint] > 0:
            left[each.fingerprint] -= 1
        else:
            unmatched.append(each)
    movable: Counter[tuple[str, str]] = Counter()
    for each in {one.fingerprint: one for one in known}.values():
        if mark := _moving(each):
            movable[mark] += left[each.fingerprint]
    new = []
    for each in unmatched:
        mark = _moving(each)
        if mark and movable[mark] > 0:
            movable[mark] -= 1
        else:
            new.append(each)
    total = len(known) - sum(left.values())
    moved = len(unmatched) - len(new)
    return Difference(
        new=tuple(sorted(new, key=lambda one: (one.path, one.line, one.rule))),
        old=total + moved,
        gone=sum(left.values()) - moved,
    )


def _moving(finding: GateFinding) -> tuple[str, str] | None:
    """Return what is the same of a finding when its line goes to another file."""
    text = finding.text.strip()
    is_text = text and not text.startswith(NUMBERED) and not finding.subject
    return (finding.rule, text) if is_text else None


def with_texts(
    findings: Sequence[GateFinding], texts: Mapping[str, Sequence[str]]
) -> tuple[GateFinding, ...]:
    """Return findings with the text of their lines, as far as `texts` has their files.

    In a file that `texts` does not have nothing moves: its line number says the same.
    """
    return tuple(_with_text(each, texts.get(each.path)) for each in findings)


def _with_text(finding: GateFinding, lines: Sequence[str] | None) -> GateFinding:
    if lines is None:
        return replace(finding, text=f"{NUMBERED}{finding.line}" if finding.line else "")
    stands = lines[finding.line - 1] if 0 < finding.line <= len(lines) else ""
    return replace(finding, text=stands[:MESSAGE_CHARS])


__all__ = [
    "MESSAGE_CHARS",
    "MOST_FINDINGS",
    "NUMBERED",
    "Difference",
    "GateFinding",
    "NothingToGoBy",
    "Outcome",
    "Reading",
    "UnreadableReport",
    "difference",
    "marked",
    "with_texts",
]
