"""Writes the table of protected paths into its page from the list; --check only compares."""

import sys

from patchyard.domain.protected import ENTRIES
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
    for entry in ENTRIES:
        paths = " ".join(f"`{pattern}`" for pattern in entry.patterns)
        source = entry.source
        shown = f"[its page]({source})" if "://" in source else f"[its page](../../{source})"
        lines.append(f"| {entry.tool} | {entry.does} | {paths} | {shown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(PLACE.main(table(), sys.argv[1:]))
