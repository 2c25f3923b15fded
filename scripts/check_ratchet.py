"""The coverage floor never falls below what it has been in any earlier commit."""

import subprocess
import sys

from run_tests import FLOOR_FILE, floor
from tree import ROOT, git, report

__all__ = ["finding"]


def finding(now: float, earlier: list[float]) -> str | None:
    """What is wrong with the floor, or None."""
    highest = max(earlier, default=0.0)
    return f"coverage floor fell from {highest} to {now}" if now < highest else None


def _earlier() -> list[float]:
    name = str(FLOOR_FILE.relative_to(ROOT))
    try:
        commits = git("log", "--format=%h", "--diff-filter=AM", "--", name).split()
    except (subprocess.CalledProcessError, FileNotFoundError):
        return []
    return [floor(git("show", f"{commit}:{name}")) for commit in commits]


if __name__ == "__main__":
    now = floor(FLOOR_FILE.read_text(encoding="utf-8"))
    wrong = finding(now, _earlier())
    sys.exit(report("ratchet", [wrong] if wrong else [], note=f"floor {now} %"))
