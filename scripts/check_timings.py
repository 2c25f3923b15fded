"""No test asserts how quick something is, or guards against a hang with too few seconds.

Machines are shared and noisy. `tests/timing.py` has what a test may ask instead: growth with the
input, and a promised end. What is to run out in a test takes less than a second, and a guard
against a hang a minute at least.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tree import files, report

__all__ = ["findings"]

_CLOCK = r"(?:process_time|perf_counter|monotonic|time)\(\)"
_BOUND = re.compile(rf"\bassert\b.*\b{_CLOCK} - .*<=?\s*[\d.]+(?!\d)\s*(?:#.*)?$")

_GUARD = re.compile(
    r"\b(?:asyncio\.timeout\(|communicate\(timeout=|wait\(timeout=|mark\.timeout\()(\d+(?:\.\d+)?)\)"
)
_RUNS_OUT_S, _GUARDS_S = 1, 60


def findings(paths: Iterable[Path]) -> Iterator[str]:
    """The lines that hold a clock's difference against a figure, or wait for too short a time."""
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if _BOUND.search(line):
                yield f"{path}:{number}: a speed is asserted; cure: tests/timing.py, or a benchmark"
            if any(_RUNS_OUT_S <= float(each) < _GUARDS_S for each in _GUARD.findall(line)):
                yield f"{path}:{number}: a busy machine takes longer; cure: {_GUARDS_S} s or more"


if __name__ == "__main__":
    found = list(findings(files("tests/*.py", "features/*.py", "robot/*.py")))
    sys.exit(report("timings", found))
