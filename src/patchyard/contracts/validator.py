"""The seam to what gates say: one reader for each form of report, one scanner for each own look."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from patchyard.domain.gate_findings import GateFinding, Reading
from patchyard.domain.gates import Gate
from patchyard.domain.patch_lines import Lines


class ReportReader(Protocol):
    """Reads one form of report, written where the actor's code ran: nothing in it is sure."""

    def read(self, report: bytes, gate: Gate, *, root: str) -> Reading:
        """Return what the report says; `root` is the tree's path where it was written.

        Never opens a file, never follows a reference, and ends in time linear in the size. Raises
        UnreadableReport.
        """
        ...


class Scanner(Protocol):
    """Looks at a change itself, in the engine, on claims of nobody. Made with the engine's home."""

    def scan(self, lines: Mapping[str, Lines]) -> Sequence[GateFinding]:
        """Return what it finds in these lines, by path. Raises NothingToGoBy."""
        ...

    @property
    def whole_files(self) -> Sequence[str]:
        """Globs of names: it is given all lines of such files that were changed, and no others.

        Empty: it is given the changed lines of all.
        """
        ...

    @property
    def excusing(self) -> Sequence[str]:
        """Words which, standing anywhere in the base, make all that it finds old; often none."""
        ...


__all__ = ["ReportReader", "Scanner"]
