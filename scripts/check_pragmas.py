"""A line left out of the coverage says why, and no reason serves twice."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tree import ROOT, files, report

__all__ = ["findings"]

_PRAGMA = re.compile(r"#\s*pragma:\s*no (?:cover|branch)\b[\s:,;-]*(.*)")


def findings(paths: Iterable[Path]) -> Iterator[str]:
    """Exceptions without a reason, and reasons used more than once."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := _PRAGMA.search(line):
                places[match.group(1).strip()].append(f"{path}:{number}")
    for where in places.pop("", []):
        yield f"{where}: no reason beside the pragma"
    for reason, several in places.items():
        if len(several) > 1:
            yield f"the same reason in {', '.join(several)}: {reason}"


if __name__ == "__main__":
    sys.exit(report("pragmas", [f.replace(f"{ROOT}/", "") for f in findings(files("src/*.py"))]))
