"""Which lines of a change are run by the tests: how it is measured, and what came of it. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchyard.domain.anywhere import named_anywhere
from patchyard.domain.body import Body
from patchyard.domain.gates import Gate, Reads
from patchyard.domain.held import MIXED, SETTINGS
from patchyard.domain.patch_lines import Lines, stretches
from patchyard.domain.shipped_gates import SHIPPED

MOST_LINES = 500  # that do not run, of all files together, which are named
MOST_PATHS = 100
NO_COMMAND = (
    "no validation command runs pytest or unittest, and no gate reads coverage;"
    " `gates: {coverage: coverage}` or one of your own measures it"
)
_DATA = '"$top/.git/patchyard-coverage"'
_RUN = f"-m coverage run --data-file={_DATA}"
_SOURCE = ' --source="$top$(test -d "$top/src" && echo ",$top/src")" -m'  # what never runs, too
_REPORT = f"-m coverage xml --data-file={_DATA} -q -o {{report}}"
_BY_MODULE = re.compile(
    r"(?<![\w./=-])(?P<python>(?:[\w./-]*/)?python[\d.]*)"
    r"(?P<flags>(?: -[BEIOSdsuvx]+| -[WX] ?\S+)*)"
    r" -m (?P<tests>pytest|unittest)\b"
)
_BY_NAME = re.compile(  # where a command begins, after variables
    r"(?P<before>(?:^|[;&|(\n]\s*)(?:\w+=\S*\s+)*)(?P<folder>(?:[\w./-]*/)?)pytest(?=\s|$)"
)


@dataclass(frozen=True, kw_only=True)
class FileCoverage:
    """The changed lines of one file that its language's tool knows."""

    path: str
    covered: int
    measured: int
    uncovered: tuple[int, ...] = ()  # those that do not run; see MOST_LINES


@dataclass(frozen=True, kw_only=True)
class ChangedCoverage:
    """The changed lines of a change."""

    files: tuple[FileCoverage, ...] = ()
    unreported: tuple[str, ...] = ()  # changed files that no report knows
    settings: tuple[str, ...] = ()  # changed files that may steer what is measured


@dataclass(frozen=True, kw_only=True)
class CoverageMeasured:
    """The engine ran the tests on what is reviewed, and looked at the changed lines: an event."""

    changed: int = 0  # lines that the change brings, comments and empty ones too
    measured: int = 0  # of them, those that can run
    covered: int = 0  # of them, those that did
    commands: tuple[str, ...] = ()
    problem: str = ""  # why nothing was measured
    body: Body = field(default_factory=Body)  # the ChangedCoverage


def measuring(gates: Sequence[Gate], validate: Sequence[str]) -> tuple[Gate, ...]:
    """Return what measures coverage: the gates that do, else the commands that run Python tests."""
    own = tuple(gate for gate in gates if gate.reads == Reads.COVERAGE)
    found = filter(None, map(with_coverage, validate))
    return own or tuple(replace(SHIPPED["coverage"], command=command) for command in found)


def with_coverage(command: str) -> str:
    """Return a command that runs pytest or unittest as one that measures; empty for others.

    All its runs are measured, into one report, which the Python of the first writes.
    """
    pythons: list[str] = []

    def measured(python: str, flags: str, tests: str) -> str:
        pythons.append(python)
        added = " --append" if len(pythons) > 1 else ""
        return f"{python}{flags} {_RUN}{added}{_SOURCE} {tests}"

    def by_module(said: re.Match[str]) -> str:
        return measured(said["python"], said["flags"], said["tests"])

    def by_name(said: re.Match[str]) -> str:
        python = f"{said['folder']}python" if said["folder"] else "python3"
        return said["before"] + measured(python, "", "pytest")

    whole = _BY_NAME.sub(by_name, _BY_MODULE.sub(by_module, command))
    return f"top=$PWD\n(\n{whole}\n)\n{pythons[0]} {_REPORT}" if pythons else ""


def changed_coverage(
    added: Mapping[str, Lines],
    reports: Sequence[Mapping[str, Mapping[int, bool]]],
    *,
    paths: Sequence[str],
) -> ChangedCoverage:
    """Return how the `added` lines fared in all reports together; one that runs them is enough."""
    files, unreported, left = [], [], MOST_LINES
    for path, lines in sorted(added.items()):
        known = [report[path] for report in reports if path in report]
        if not known:
            unreported.append(path)
            continue
        hits: dict[int, bool] = {}
        for report in known:
            for line in report.keys() & lines.keys():
                hits[line] = hits.get(line, False) or report[line]
        missed = sorted(line for line, hit in hits.items() if not hit)
        kept, left = missed[:left], max(0, left - len(missed))
        if hits:
            covered = len(hits) - len(missed)
            row = FileCoverage(
                path=path, covered=covered, measured=len(hits), uncovered=tuple(kept)
            )
            files.append(row)
    steers = named_anywhere((*SETTINGS, *MIXED))
    return ChangedCoverage(
        files=tuple(files),
        unreported=tuple(unreported[:MOST_PATHS]),
        settings=tuple(path for path in paths if steers.match(path))[:MOST_PATHS],
    )


def coverage_words(event: CoverageMeasured) -> str:
    """Return the measure in one line, for people and models."""
    if event.problem:
        return f"not measured: {event.problem}"
    if not event.measured:
        return "none of the changed lines is one that can run"
    share = 100 * event.covered / event.measured
    return f"{event.covered} of {event.measured} changed lines run ({share:.1f} %)"


def uncovered_places(coverage: ChangedCoverage) -> list[str]:
    """Return the changed lines that do not run, as `path:3` and `path:5-7`."""
    return [
        f"{row.path}:{first}" if first == last else f"{row.path}:{first}-{last}"
        for row in coverage.files
        for first, last in stretches(row.uncovered)
    ]


__all__ = [
    "MOST_LINES",
    "MOST_PATHS",
    "NO_COMMAND",
    "ChangedCoverage",
    "CoverageMeasured",
    "FileCoverage",
    "changed_coverage",
    "coverage_words",
    "measuring",
    "uncovered_places",
    "with_coverage",
]
