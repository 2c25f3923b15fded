"""Takes the measures of benchmarks/*_bench.py and prints them as one table.

A measure that misses its figure is marked; with --strict it also makes the exit code 1.
"""

import argparse
import importlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from tree import ROOT

__all__ = ["main", "measures", "row"]


def measures() -> Iterator[Callable[[], float]]:
    """All functions that are declared with `benchmarks.measuring.measured`, by file and order."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    for path in sorted((ROOT / "benchmarks").glob("*_bench.py")):
        module = importlib.import_module(f"benchmarks.{path.stem}")
        for name, value in vars(module).items():
            if name.startswith("track_") and hasattr(value, "label"):
                yield value


def row(measure: Any) -> tuple[str, str, str, str, bool]:
    """Label, figure, target, remark and whether it is well, of one measure."""
    target = "-" if measure.target is None else f"{measure.target:g} {measure.unit}"
    try:
        figure = float(measure())
    except NotImplementedError as error:
        return measure.label, "-", target, f"not taken: {error}", True
    except Exception as error:  # noqa: BLE001 - one broken measure must not hide the others
        return measure.label, "-", target, f"BROKEN: {error!r}", False
    is_well = measure.target is None or figure <= measure.target
    said = f"{figure:.3g} {measure.unit}" if figure < 100 else f"{figure:.0f} {measure.unit}"
    return measure.label, said, target, "" if is_well else "OVER", is_well


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", help="parts of labels")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a figure is missed")
    options = parser.parse_args()
    print(
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {os.cpu_count()} cores; "
        "where a measure has a model, it is scripted"
    )
    print(f"{'measure':<52} {'measured':>12} {'target':>12}")
    missed = 0
    for measure in measures():
        if options.only and not any(part in vars(measure)["label"] for part in options.only):
            continue
        label, figure, target, remark, is_well = row(measure)
        print(f"{label:<52} {figure:>12} {target:>12}  {remark}".rstrip(), flush=True)
        missed += not is_well
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
