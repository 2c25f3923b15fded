"""Writes the table of protected paths into its page from the list; --check only compares."""

import sys

from patchyard.domain.manifest_parts import DEPENDENCIES, PARTS
from patchyard.domain.protected import ENTRIES
from patchyard.domain.protected_entry import ProtectedEntry
from tree import ROOT
from written_table import WrittenTable

__all__ = ["PLACE", "table"]

PLACE = WrittenTable(
    page=ROOT / "docs" / "reference" / "protected_paths.md",
    script="protected_table.py",
    check="protected paths",
)


def table() -> str:
    """Return a row for each line of the list."""
    lines = ["| tool | what it does | paths | source |", "|---|---|---|---|"]
    lines += [_row(each) for each in ENTRIES]
    for name, parts in PARTS.items():
        lines += [_row(part, f" in `{name}`") for part in parts]
    lines += [_row(part, " in both, where it is no version") for part in DEPENDENCIES]
    return "\n".join(lines)


def _row(entry: ProtectedEntry, where: str = "") -> str:
    paths = " ".join(f"`{pattern}`" for pattern in entry.patterns)
    source = entry.source
    shown = f"[its page]({source})" if "://" in source else f"[its page](../../{source})"
    return f"| {entry.tool} | {entry.does} | {paths}{where} | {shown} |"


if __name__ == "__main__":
    sys.exit(PLACE.main(table(), sys.argv[1:]))
