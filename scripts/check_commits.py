"""Each commit's first line is `type(component): imperative sentence` (the style page)."""

import re
import subprocess
import sys

from tree import git, report

__all__ = ["LONGEST", "finding"]

LONGEST = 120
_FORM = re.compile(
    r"(feat|fix|docs|test|refactor|perf|build|ci|chore|style|revert)"
    r"\([a-z0-9][a-z0-9_/-]*\)!?: [a-z]\S*( \S+)+"
)


def finding(subject: str) -> str | None:
    """What is wrong with a commit's first line, or None."""
    if not _FORM.fullmatch(subject):
        return "not of the form type(component): sentence"
    if subject.endswith("."):
        return "ends with a full stop"
    return f"longer than {LONGEST} characters" if len(subject) > LONGEST else None


def main() -> int:
    """Checks the history that is there: a shallow clone has less, an archive none."""
    try:
        log = git("log", "--no-merges", "--format=%h%x09%s")
    except (subprocess.CalledProcessError, FileNotFoundError):
        return report("commits", [], note="no history here")
    lines = [line.split("\t", 1) for line in log.splitlines()]
    found = [
        f"{commit}: {why}: {subject}" for commit, subject in lines if (why := finding(subject))
    ]
    return report("commits", found, note=f"{len(lines)} commits")


if __name__ == "__main__":
    sys.exit(main())
