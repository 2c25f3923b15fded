"""Which services the tests find here: those left out as one table, with how to get each.

Usage: service_table.py FILE; the names of those left out are written to FILE, one a line.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from tree import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from services import CURES, PROBES, absence

__all__ = ["table"]


def table(absent: dict[str, str]) -> Table:
    """What is left out, why, and how to get it; the reason of each service by its name."""
    shown = Table(box=box.SIMPLE, title_justify="left", title="Left out: tests that need")
    for heading in ("service", "why it is not there", "how to get it"):
        shown.add_column(heading, overflow="fold")
    for name, why in absent.items():
        shown.add_row(name, why, CURES[name])
    return shown


def main(file: Path) -> None:
    """Asks for all services side by side, prints the table and writes the names."""
    with ThreadPoolExecutor() as side_by_side:
        reasons = side_by_side.map(absence, PROBES)
        absent = {name: why for name, why in zip(PROBES, reasons, strict=True) if why}
    file.write_text("".join(f"{name}\n" for name in absent), encoding="utf-8")
    there = len(PROBES) - len(absent)
    print(f"services: {there} of {len(PROBES)} that tests need are here", flush=True)
    if absent:
        Console().print(table(absent))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
