"""Writes the table of attacks in SECURITY.md from the battery; --check only compares."""

import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from patchyard.domain.environment import GVISOR_STRENGTH, HERE, STRENGTH
from patchyard.probing.battery import all_attacks
from patchyard.probing.known import IN_GVISOR, KNOWN, Known, Only
from tree import ROOT
from written_table import WrittenTable

__all__ = ["PLACE", "table"]

PLACE = WrittenTable(page=ROOT / "SECURITY.md", script="attack_table.py", check="attack table")
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
    yield _Column("`container` in gVisor before 2023", GVISOR_STRENGTH, IN_GVISOR)


def _stopped(name: str, listed: Mapping[str, Known]) -> str:
    known = listed.get(name)
    return "yes" if known is None else MARKS[known.only]


if __name__ == "__main__":
    sys.exit(PLACE.main(table(), sys.argv[1:]))
