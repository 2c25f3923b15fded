"""The files of this checkout and how a check reports; knows nothing of what is checked."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["ROOT", "files", "git", "report"]

ROOT = Path(__file__).resolve().parent.parent


def git(*arguments: str, root: Path = ROOT) -> str:
    """What git prints; raises CalledProcessError where git refuses."""
    run = subprocess.run(
        ["git", "-C", str(root), *arguments],
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    return run.stdout.decode("utf-8", "surrogateescape")


def files(*patterns: str, root: Path = ROOT) -> list[Path]:
    """Tracked files and new ones that are not ignored, sorted; patterns are git's pathspecs."""
    listed = git("ls-files", "-z", "-co", "--exclude-standard", "--", *patterns, root=root)
    names = sorted({name for name in listed.split("\0") if name})
    return [path for path in (root / name for name in names) if path.is_file()]


def report(check: str, findings: Sequence[str], *, note: str = "") -> int:
    """Prints what was found and gives the exit code: 0 for nothing, 1 else."""
    for finding in findings:
        print(f"{check}: {finding}", file=sys.stderr)
    if not findings:
        print(f"{check}: ok{f' ({note})' if note else ''}")
    return 1 if findings else 0
