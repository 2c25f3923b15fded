"""Writes the table of attacks in SECURITY.md from the battery; --check only compares."""

import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from patchyard.domain.environment import GVISOR_STRENGTH, HERE, STRENGTH
from patchyard.probing.battery import all_attacks
from patchyard.probing.known import IN_GVISOR, KNOWN, Known, Only
from tree import ROOT, report

__all__ = ["BEGIN", "END", "PAGE", "renewed", "table"]

PAGE = ROOT / "SECURITY.md"
BEGIN = "<!-- written by scripts/attack_table.py; `make fix` writes it anew -->"
END = "<!-- end of the table -->"
MARKS = {
    Only.ALWAYS: "no",
    Only.ORDINARY: "no, run by an ordinary user",
    Only.OPEN: "as the machine",
}


def table() -> str:
    """Return a row for each attack, and a column for each kind."""
    columns = sorted(_columns(), key=lambda column: (-column.strength, column.head))
    heads = " | ".join(column.head for column in columns)
    lines = [f"| stopped by | {heads} |", "|---" * (len(columns) + 1) + "|"]
    group = None
    for attack in all_attacks(str):
        if attack.group is not group:
            group = attack.group
            lines.append(f"| **{group}** |" + " |" * len(columns))
        cells = " | ".join(_stopped(attack.name, column.known) for column in columns)
        lines.append(f"| {attack.title} (`{attack.name}`) | {cells} |")
    return "\n".join(lines)


class _Column(NamedTuple):
    head: str
    strength: int
    known: Mapping[str, Known]


def _columns() -> Iterator[_Column]:
    for kind in {*HERE, *KNOWN}:
        yield _Column(f"`{kind}`", STRENGTH[kind], KNOWN.get(kind, {}))
    yield _Column("`container` in gVisor", GVISOR_STRENGTH, IN_GVISOR)


def _stopped(name: str, listed: Mapping[str, Known]) -> str:
    known = listed.get(name)
    return "yes" if known is None else MARKS[known.only]


def renewed(text: str) -> str:
    """Return the page with the table as the battery has it. Raises ValueError without a place."""
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
    stale = f"{PAGE.name} does not list the attacks as they are; cure: make fix"
    return report("attack table", [] if renewed(text) == text else [stale])


if __name__ == "__main__":
    sys.exit(main())
