"""Writes the table of protected paths into its page from the list; --check only compares."""

import sys

from patchyard.domain.protected import ENTRIES
from tree import ROOT, report

__all__ = ["BEGIN", "END", "PAGE", "renewed", "table"]

PAGE = ROOT / "docs" / "reference" / "protected_paths.md"
BEGIN = "<!-- written by scripts/protected_table.py; `make fix` writes it anew -->"
END = "<!-- end of the table -->"


def table() -> str:
    """Return a row for each line of the list."""
    lines = ["| tool | what it does | paths | source |", "|---|---|---|---|"]
    for entry in ENTRIES:
        paths = " ".join(f"`{pattern}`" for pattern in entry.patterns)
        source = entry.source
        shown = f"[its page]({source})" if "://" in source else f"[its page](../../{source})"
        lines.append(f"| {entry.tool} | {entry.does} | {paths} | {shown} |")
    return "\n".join(lines)


def renewed(text: str) -> str:
    """Return the page with the table as the list has it. Raises ValueError without a place."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no place for the table: {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> int:
    """Writes the table, or with --check says whether it is true."""
    text = PAGE.read_text(encoding="utf-8")
    if "--check" not in sys.argv:
        PAGE.write_text(renewed(text), encoding="utf-8")
        return 0
    stale = f"{PAGE.name} does not list the paths as they are; cure: make fix"
    return report("protected paths", [] if renewed(text) == text else [stale])


if __name__ == "__main__":
    sys.exit(main())
