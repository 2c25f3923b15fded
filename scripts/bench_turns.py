"""Takes the measures here and in another checkout by turns, and prints the medians side by side.

The other one, a clone at the commit to compare with, has its own `.venv` by `make setup`. A measure
counts as slower where our median lies above all that the other one gave.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tree import ROOT

__all__ = ["Pair", "figures", "main", "pairs", "taken"]

ROW = re.compile(
    r"(?P<label>\S.*\S) +(?P<figure>-?[\d.]+(?:e[+-]?\d+)?) (?P<unit>\S+) +(?:-|[\d.])"
)

Figures = Mapping[str, tuple[float, str]]  # figure and unit by label


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The figures of one measure, here and there, in the order they were taken."""

    label: str
    unit: str
    ours: Sequence[float]
    theirs: Sequence[float]

    @property
    def ratio(self) -> float:
        """Our median over theirs; not a number where theirs is 0."""
        theirs = statistics.median(self.theirs)
        return statistics.median(self.ours) / theirs if theirs else float("nan")

    @property
    def is_slower(self) -> bool:
        """Whether our median lies above the whole spread of theirs."""
        return statistics.median(self.ours) > max(self.theirs)


def figures(table: str) -> Figures:
    """Return what `scripts/bench.py` printed; measures that were not taken are left out."""
    rows = (ROW.match(line) for line in table.splitlines())
    return {row["label"]: (float(row["figure"]), row["unit"]) for row in rows if row}


def pairs(ours: Iterable[Figures], theirs: Iterable[Figures]) -> list[Pair]:
    """Return the measures that every turn took in both, in our order."""
    ours, theirs = list(ours), list(theirs)
    return [
        Pair(
            label=label,
            unit=unit,
            ours=[turn[label][0] for turn in ours],
            theirs=[turn[label][0] for turn in theirs],
        )
        for label, (_, unit) in ours[0].items()
        if all(turn.get(label, ("", ""))[1] == unit for turn in (*ours, *theirs))
    ]


def taken(checkout: Path, parts: Sequence[str], processors: Collection[int]) -> Figures:
    """Take the measures of a checkout. Raises CalledProcessError where they cannot be taken."""
    words = [f"{checkout}/.venv/bin/python", f"{checkout}/scripts/bench.py", *parts]
    os.sched_setaffinity(0, processors)  # of this thread, and so of what it starts
    done = subprocess.run(words, check=True, cwd=checkout, capture_output=True, text=True)
    return figures(done.stdout)


def turn_of(
    other: Path, parts: Sequence[str], number: int, *, is_at_once: bool
) -> tuple[Figures, Figures]:
    """Take the measures here and there once: one after the other, first there in even turns.

    At once: each on a half of the processors, which they swap with each turn.
    """
    every = sorted(os.sched_getaffinity(0))
    middle = len(every) // 2
    halves = (every[:middle], every[middle:]) if is_at_once else (every, every)
    places = [ROOT, other] if number % 2 else [other, ROOT]
    with ThreadPoolExecutor(max_workers=2 if is_at_once else 1) as both:
        begun = {
            place: both.submit(taken, place, parts, half)
            for place, half in zip(places, halves, strict=True)
        }
        return begun[ROOT].result(), begun[other].result()


def main() -> int:
    """Print the table; exit 1 where a measure is slower, or one of them was taken on one side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("only", nargs="*", help="parts of labels")
    parser.add_argument("--turns", type=int, default=10, help="of each, 10 by default")
    parser.add_argument(
        "--at-once", action="store_true", help="both at once, each on a half of the processors"
    )
    parser.add_argument(
        "--kept", type=Path, help="a file that each turn is added to; those in it count as taken"
    )
    options = parser.parse_args()
    other = options.other.resolve()
    if not (other / ".venv/bin/python").exists() or not (other / "scripts/bench.py").exists():
        print(f"{other} is not set up; cure: make -C {other} setup", file=sys.stderr)
        return 2
    if options.at_once and len(os.sched_getaffinity(0)) < 2:
        print("--at-once needs two processors; leave it out here", file=sys.stderr)
        return 2
    if options.kept:
        options.kept.parent.mkdir(parents=True, exist_ok=True)
    turns = _kept(options.kept)
    for number in range(len(turns), max(options.turns, 1)):
        turns.append(turn_of(other, options.only, number, is_at_once=options.at_once))
        if options.kept:
            with options.kept.open("a") as file:
                file.write(json.dumps(turns[-1]) + "\n")
        print(f"turn {number + 1} of {options.turns}", file=sys.stderr)
    ours, theirs = zip(*turns, strict=True)
    return _print(pairs(ours, theirs), {label for turn in (*ours, *theirs) for label in turn})


def _kept(place: Path | None) -> list[tuple[Figures, Figures]]:
    """Return the turns that a file holds."""
    if place is None or not place.exists():
        return []
    return [
        ({label: (figure, unit) for label, (figure, unit) in here.items()},
         {label: (figure, unit) for label, (figure, unit) in there.items()})
        for here, there in map(json.loads, place.read_text().splitlines())
    ]  # fmt: skip


def _print(found: Sequence[Pair], labels: set[str]) -> int:
    print(f"{'measure':<52} {'here':>10} {'there':>10} {'spread there':>19}  ratio")
    for pair in found:
        here, there = statistics.median(pair.ours), statistics.median(pair.theirs)
        spread = f"{min(pair.theirs):g} to {max(pair.theirs):g}"
        print(
            f"{pair.label:<52} {here:>10.4g} {there:>10.4g} {spread:>19}  {pair.ratio:.2f}"
            f" {pair.unit}{'  SLOWER' if pair.is_slower else ''}"
        )
    lacking = sorted(labels - {pair.label for pair in found})
    for label in lacking:
        print(f"{label:<52} not taken in each turn of both")
    return 1 if lacking or any(pair.is_slower for pair in found) else 0


if __name__ == "__main__":
    sys.exit(main())
