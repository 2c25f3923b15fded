"""No test asserts how quick something is: machines are shared and noisy.

`tests/timing.py` has what a test may ask instead: growth with the input, and a promised end.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tree import files, report

__all__ = ["findings"]

_CLOCK = r"(?:process_time|perf_counter|monotonic|time)\(\)"
_BOUND = re.compile(rf"\bassert\b.*\b{_CLOCK} - .*<=?\s*[\d.]+(?!\d)\s*(?:#.*)?$")


def findings(paths: Iterable[Path]) -> Iterator[str]:
    """The lines that hold a clock's difference against a figure."""
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if _BOUND.search(line):
                yield f"{path}:{number}: a speed is asserted; cure: tests/timing.py, or a benchmark"


if __name__ == "__main__":
    found = list(findings(files("tests/*.py", "features/*.py", "robot/*.py")))
    sys.exit(report("timings", found))
