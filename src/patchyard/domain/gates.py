"""Gates as data: what is run on a tree, how its report is read, and what of that stops a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Reads(StrEnum):
    """How the report of a gate is read: each but `exit` is a file in `validators/`."""

    ADVISORIES = "advisories"  # no command: pinned packages of lock files that were changed
    CARGO_TEST = "cargo-test"  # what `cargo test` says, with --message-format short
    COVERAGE = "coverage"  # Cobertura XML
    EXIT = "exit"  # nothing but the exit code
    GO_TEST = "go-test"  # what `go test -json` says, and its errors
    JSON = "json"  # of any tool, by a small mapping
    JUNIT = "junit"  # XML of test runners
    LICENCES = "licences"  # no command: what the change brings, read outside any environment
    NUMBER = "number"  # the last number that the command says; less is better
    SARIF = "sarif"
    SECRETS = "secrets"  # as `licences`
    TEXT = "text"  # lines as compilers write them, for tools without anything better
    TIME = "time"  # how long the command runs


SCANS = frozenset({Reads.ADVISORIES, Reads.LICENCES, Reads.SECRETS})  # need no command
MEASURES = frozenset({Reads.NUMBER, Reads.TIME})  # compared by their ratio
TESTING = frozenset({Reads.CARGO_TEST, Reads.GO_TEST, Reads.JUNIT})  # say what became of each test
FINDING = TESTING | {Reads.JSON, Reads.SARIF, Reads.TEXT}


class Reach(StrEnum):
    """Which new findings count."""

    ALL = "all"
    CHANGED = "changed"  # those on changed lines


class Severity(StrEnum):
    """How grave a finding is, the least first; the words of SARIF."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """0 for the least."""
        return tuple(Severity).index(self)


GATE_TIMEOUT_S = 600.0  # validation (interface.md)
REPORT = ".git/patchyard-report"  # no tool looks there, and a fresh tree has no such file
PLACEHOLDER = "{report}"  # in a command: where it writes the report
REPORT_BYTES = 64 * 1024 * 1024  # of a report; a larger one is refused
ENDED_WELL = (0, 1)  # exit codes of a tool that did its work and may have found things


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One gate of a plan."""

    name: str
    command: str = ""  # empty for scans
    reads: Reads = Reads.EXIT
    report: str = ""  # path of the report in the tree; empty: {report}, else standard output
    threshold: float | None = None  # None: the parser's own, see `allowed`
    scope: Reach = Reach.ALL
    is_required: bool = True  # else it is told, and stops nothing
    timeout_s: float = GATE_TIMEOUT_S
    severity: Severity = Severity.NOTE  # findings below count for nothing
    exit_codes: tuple[int, ...] = ENDED_WELL  # of findings alone; with others it is broken
    repeats: int = 1  # runs on each side; the middle one counts
    mapping: Mapping[str, str] = field(default_factory=dict)  # of `json`: where each fact stands
    from_base: tuple[str, ...] = ()  # further globs of files that are taken from the base
    is_tests: bool = False  # changed tests of the base are run in their base form too
    cure: str = ""  # what to do where the tool is not there

    @property
    def is_scan(self) -> bool:
        """Whether the change is read by the engine itself, without an environment."""
        return self.reads in SCANS

    @property
    def shown(self) -> str:
        """What people read of it as a command."""
        return self.command or f"({self.reads})"

    @property
    def allowed(self) -> float:
        """What the result may come to: findings, percent, points or a ratio (see docs)."""
        if self.threshold is not None:
            return self.threshold
        if self.reads == Reads.COVERAGE:
            return 80.0 if self.scope == Reach.CHANGED else 0.0
        return 1.5 if self.reads in MEASURES else 0.0


__all__ = [
    "ENDED_WELL",
    "FINDING",
    "GATE_TIMEOUT_S",
    "MEASURES",
    "PLACEHOLDER",
    "REPORT",
    "REPORT_BYTES",
    "SCANS",
    "TESTING",
    "Gate",
    "Reach",
    "Reads",
    "Severity",
]
