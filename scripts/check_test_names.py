"""Test files have different names, since pytest imports them by name alone."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tree import files, report

__all__ = ["findings"]


def findings(paths: Iterable[Path]) -> Iterator[str]:
    """Yield each file whose name an earlier one has; a `conftest.py` belongs to its folder."""
    first: dict[str, Path] = {}
    for path in paths:
        earlier = first.setdefault(path.name, path)
        if earlier != path and path.name != "conftest.py":
            yield f"{path}: {earlier} has this name; cure: give it another"


if __name__ == "__main__":
    sys.exit(report("test names", list(findings(files("tests/*.py")))))
