"""What a gate's runs on the base and on the result come to. Pure: no file, no clock."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from statistics import median
from typing import Any

from patchyard.domain.errors import listing
from patchyard.domain.gate_findings import GateFinding, Outcome, Reading, difference
from patchyard.domain.gates import MEASURES, TESTING, Gate, Reach, Reads, Severity
from patchyard.domain.patch_lines import stretches

NAMED = 20  # tests that a note names
ONLY_AS_CHANGED = "only-as-changed"  # rule of what the base's own tests say
DID_NOT_RUN = "did-not-run"  # rule of tests that ran on the base alone, though none was changed


class Status(StrEnum):
    """How a gate ended."""

    ABSENT = "absent"  # its tool is not there
    BROKEN = "broken"  # it ran and said nothing that can be read
    FAILED = "failed"
    PASSED = "passed"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One gate on one tree."""

    reading: Reading = field(default_factory=Reading)
    exit_code: int | None = 0
    problem: str = ""  # why there is no reading
    is_absent: bool = False  # the problem is that the tool is not there
    is_beyond: bool = False  # the problem is none of the tree: no work on it can mend that
    elapsed: tuple[float, ...] = ()  # seconds of each repeat

    @property
    def is_good(self) -> bool:
        """Whether it says something."""
        return not self.problem


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What is known of the change that findings are compared over."""

    changed: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    """Changed lines by path of the result; None: every line of it."""
    renamed: Mapping[str, str] = field(default_factory=dict)  # new names by old ones
    touches_tests: bool = False  # whether tests of the base were changed, so that fewer may run
    is_waived: bool = False  # whether the user lets it pass that tests of the base do not run

    def is_changed(self, finding: GateFinding) -> bool:
        """Whether it stands on a changed line, or nobody can say where it stands."""
        if not finding.path:
            return True
        lines = self.changed.get(finding.path, frozenset())
        return lines is None or finding.line in lines or (not finding.line and bool(lines))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a gate came to."""

    status: Status
    findings: tuple[GateFinding, ...] = ()  # those that count, the gravest first
    old: int = 0  # that the base has too
    gone: int = 0  # that the base has and the result has not
    notes: tuple[str, ...] = ()  # for people; they stop nothing
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing is against the result."""
        return self.status == Status.PASSED


def judged(
    gate: Gate, before: Run | None, after: Run, ground: Ground, *, held: Run | None = None
) -> Verdict:
    """Return the verdict. `held` is the run on the result with the base's own tests.

    Where the base says nothing that can be read, all of the result counts as new.
    """
    for run in (after, held):
        if run is not None and not run.is_good:
            return Verdict(
                status=Status.ABSENT if run.is_absent else Status.BROKEN, problem=run.problem
            )
    if before is not None and not before.is_good:
        verdict = _JUDGES.get(gate.reads, _by_findings)(gate, Run(), after, ground, held)
        note = f"the base cannot be compared with: {before.problem}"
        return _with_note(verdict, note)
    return _JUDGES.get(gate.reads, _by_findings)(gate, before or Run(), after, ground, held)


def _with_note(verdict: Verdict, note: str) -> Verdict:
    return Verdict(
        status=verdict.status,
        findings=verdict.findings,
        old=verdict.old,
        gone=verdict.gone,
        notes=(*verdict.notes, note),
    )


def _ended(findings: Sequence[GateFinding], most: float) -> Status:
    return Status.FAILED if len(findings) > most else Status.PASSED


def _by_exit(gate: Gate, _: Run, after: Run, ground: Ground, held: Run | None) -> Verdict:
    del gate, ground
    if after.exit_code != 0:
        return Verdict(status=Status.FAILED)
    if held is not None and held.exit_code != 0:
        finding = GateFinding(
            rule=ONLY_AS_CHANGED,
            severity=Severity.ERROR,
            message="it passes with the changed tests alone, and not with those of the base",
        )
        return Verdict(status=Status.FAILED, findings=(finding,))
    return Verdict(status=Status.PASSED)


def _by_findings(gate: Gate, before: Run, after: Run, ground: Ground, held: Run | None) -> Verdict:
    found = difference(
        before.reading.findings,
        after.reading.findings,
        renamed=ground.renamed,
        is_changed=ground.is_changed,
    )
    counted = [each for each in found.new if each.severity.rank >= gate.severity.rank]
    if gate.scope == Reach.CHANGED:
        counted = [each for each in counted if ground.is_changed(each)]
    counted += _only_as_changed(after, held)
    if gate.reads in TESTING and _ended(counted, gate.allowed) == Status.PASSED:
        counted += _missing(before, after, ground, held)  # else what fails says why they did not
    counted.sort(key=lambda each: -each.severity.rank)
    status = _ended(counted, gate.allowed)
    if gate.reads in TESTING and not after.reading.tests and status == Status.PASSED:
        problem = "no test ran, as on the base: that proves nothing"
        return Verdict(status=Status.BROKEN, old=found.old, problem=problem)
    notes = _of_tests(before.reading.tests, after.reading.tests, held)
    return Verdict(
        status=status, findings=tuple(counted), old=found.old, gone=found.gone, notes=notes
    )


def _only_as_changed(after: Run, held: Run | None) -> list[GateFinding]:
    """Return the failures of the base's tests in their base form that the change has hidden."""
    if held is None:
        return []
    failing = {_known_by(each) for each in after.reading.findings}
    return [
        GateFinding(
            path=each.path,
            line=each.line,
            rule=ONLY_AS_CHANGED,
            severity=Severity.ERROR,
            message=f"fails as the base has it: {each.message}",
            subject=each.subject,
        )
        for each in held.reading.findings
        if _known_by(each) not in failing
    ]


def _missing(before: Run, after: Run, ground: Ground, held: Run | None) -> list[GateFinding]:
    """Return the tests that ran on the base and not on the result, where the change explains none.

    With the base's own tests each of them has to run. Of a parametrised test one case is enough,
    since the code may say which there are; a file that could not be loaded is no test.
    """
    if ground.is_waived or (ground.touches_tests and held is None):
        return []
    known = (held or after).reading.tests
    ran = {_unparametrised(name) for name, how in known.items() if how != Outcome.SKIPPED}
    loaded = {name.partition("::")[0] for name in ran}
    missing = sorted(
        {
            name
            for each, how in before.reading.tests.items()
            if how != Outcome.SKIPPED and (name := _unparametrised(each)) not in ran | loaded
        }
    )
    return [
        GateFinding(
            rule=DID_NOT_RUN,
            severity=Severity.ERROR,
            message=f"{name} ran on the base, and not here",
            subject=name,
        )
        for name in missing
    ]


def _unparametrised(name: str) -> str:
    """Return a test's name without what may come from the code: a case, or a subtest of Go."""
    suite, mark, own = name.rpartition("::")
    bare = own.partition("[")[0] if own.endswith("]") else own
    return f"{suite}{mark}{bare or own}" if mark else re.sub(r"(\.Test\w+)/.*", r"\1", bare)


def _known_by(finding: GateFinding) -> tuple[str, ...]:
    """Return what is the same of a failure on two trees; errors of a compiler have no subject."""
    return (finding.subject,) if finding.subject else (finding.path, finding.message)


def _of_tests(
    before: Mapping[str, Outcome], after: Mapping[str, Outcome], held: Run | None
) -> tuple[str, ...]:
    """Say which tests vanished or are newly skipped."""
    vanished = sorted(before.keys() - after.keys())
    skipped = sorted(
        name
        for name, outcome in after.items()
        if outcome == Outcome.SKIPPED and before.get(name, Outcome.SKIPPED) != Outcome.SKIPPED
    )
    notes = []
    if vanished:
        notes.append(f"{_some(vanished)} of the base did not run")
    if skipped:
        notes.append(f"{_some(skipped)} newly skipped")
    if held is not None:
        notes.append("changed tests were also run as the base has them")
    return tuple(notes)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    count = "1 test" if len(names) == 1 else f"{len(names)} tests"
    return f"{count} ({', '.join(names[:NAMED])}{more})"


def _by_coverage(gate: Gate, before: Run, after: Run, ground: Ground, _: Run | None) -> Verdict:
    if gate.scope == Reach.ALL:
        was, now = _share(before.reading.lines), _share(after.reading.lines)
        if was is None or now is None or was - now <= gate.allowed:
            return Verdict(status=Status.PASSED, notes=_shown(now))
        message = f"{was:.1f} % of all lines were covered, now {now:.1f} %"
        finding = GateFinding(rule="coverage", severity=Severity.ERROR, message=message)
        return Verdict(status=Status.FAILED, findings=(finding,))
    lines = {
        path: {line: hit for line, hit in known.items() if _counts(ground, path, line)}
        for path, known in after.reading.lines.items()
    }
    now, unknown = _share(lines), _unknown(before, after, ground)
    if now is None or now >= gate.allowed:
        notes = (*_shown(now, of="the changed lines"), *unknown)
        return Verdict(status=Status.PASSED, notes=notes)
    missed = tuple(
        GateFinding(
            path=path,
            line=first,
            rule="coverage",
            severity=Severity.ERROR,
            message=_ran(first, last),
        )
        for path, known in sorted(lines.items())
        for first, last in stretches([line for line, hit in sorted(known.items()) if not hit])
    )
    note = f"{now:.1f} % of the changed lines are covered, {gate.allowed:g} % are wanted"
    return Verdict(status=Status.FAILED, findings=missed, notes=(note, *unknown))


def _unknown(before: Run, after: Run, ground: Ground) -> tuple[str, ...]:
    """Return the changed files of which the report says nothing, though it knows their kind."""
    known = after.reading.lines
    kinds = {PurePosixPath(path).suffix for path in (*known, *before.reading.lines)} - {""}
    missing = [
        path
        for path, lines in ground.changed.items()
        if path not in known and PurePosixPath(path).suffix in kinds and lines != frozenset()
    ]
    return (f"the report does not know {listing(sorted(missing))}",) if missing else ()


def _counts(ground: Ground, path: str, line: int) -> bool:
    return ground.is_changed(GateFinding(path=path, line=line))


def _share(lines: Mapping[str, Mapping[int, bool]]) -> float | None:
    """Return the percentage of lines that are covered, None where there is none to cover."""
    hits = [hit for known in lines.values() for hit in known.values()]
    return 100.0 * sum(hits) / len(hits) if hits else None


def _shown(share: float | None, *, of: str = "all lines") -> tuple[str, ...]:
    return () if share is None else (f"{share:.1f} % of {of} are covered",)


def _ran(first: int, last: int) -> str:
    return f"line {first} does not run" if first == last else f"lines {first}-{last} do not run"


def _by_ratio(gate: Gate, before: Run, after: Run, ground: Ground, _: Run | None) -> Verdict:
    del ground
    was, now = measured(gate, before), measured(gate, after)
    if was is None or now is None:
        return Verdict(status=Status.PASSED, notes=("there is nothing to compare with",))
    unit = " s" if gate.reads == Reads.TIME else ""
    ratio = now / was if was > 0 else (1.0 if now <= 0 else float("inf"))
    said = f"{was:.4g}{unit} before, {now:.4g}{unit} after: {ratio:.2f} times"
    if ratio <= gate.allowed:
        return Verdict(status=Status.PASSED, notes=(said,))
    finding = GateFinding(
        rule="slower" if gate.reads == Reads.TIME else "more",
        severity=Severity.ERROR,
        message=f"{said}, {gate.allowed:g} are allowed",
    )
    return Verdict(status=Status.FAILED, findings=(finding,))


def measured(gate: Gate, run: Run) -> float | None:
    """Return what a measuring gate measured; the middle one of its repeats."""
    if gate.reads not in MEASURES:
        return None
    if gate.reads == Reads.NUMBER:
        return run.reading.number
    return median(run.elapsed) if run.elapsed else None


_JUDGES = {
    Reads.COVERAGE: _by_coverage,
    Reads.EXIT: _by_exit,
    Reads.NUMBER: _by_ratio,
    Reads.TIME: _by_ratio,
}


def shown_finding(finding: Mapping[str, Any]) -> str:
    """Return a finding as people read one: `path:line: rule: message`."""
    place = finding.get("path") or ""
    if place and finding.get("line"):
        place = f"{place}:{finding['line']}"
    return ": ".join(part for part in (place, finding.get("rule"), finding.get("message")) if part)


__all__ = [
    "DID_NOT_RUN",
    "NAMED",
    "ONLY_AS_CHANGED",
    "Ground",
    "Run",
    "Status",
    "Verdict",
    "judged",
    "measured",
    "shown_finding",
]
