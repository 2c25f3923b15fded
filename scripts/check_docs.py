"""The documents keep their word: links lead somewhere, marked examples run, the CLI page is true.

An example is run where its fence says so: `sh run` or `python run`. It runs in an empty folder
with an empty home, and must end with 0 within a minute.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tree import ROOT, files, report

__all__ = ["broken_links", "examples", "failure"]

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(sh|python) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
TIME_LIMIT_S = 60


def broken_links(page: Path) -> Iterator[str]:
    """Relative links of a page that lead nowhere."""
    for target in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        place = target.partition("#")[0]
        if not place or "://" in place or place.startswith("mailto:"):
            continue
        if not (page.parent / place).exists():
            yield f"{page}: leads nowhere: {target}"


def examples(page: Path) -> Iterator[tuple[str, str]]:
    """Language and text of the examples that are marked to be run."""
    for match in _FENCE.finditer(page.read_text(encoding="utf-8")):
        yield match.group(1), match.group(2)


def failure(language: str, text: str) -> str | None:
    """Runs one example; what went wrong, or None."""
    command = ["sh", "-eu"] if language == "sh" else [sys.executable, "-"]
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        work = Path(folder, "work")
        home.mkdir()
        work.mkdir()
        environment = {"PATH": here, "HOME": str(home), "PATCHYARD_HOME": str(home / "state")}
        try:
            run = subprocess.run(
                command,
                check=False,
                input=text,
                capture_output=True,
                text=True,
                cwd=work,
                env=environment,
                timeout=TIME_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return f"not done within {TIME_LIMIT_S} s"
    if run.returncode == 0:
        return None
    said = (run.stderr.strip() or run.stdout.strip() or "no message").splitlines()[-1]
    return f"exit {run.returncode}: {said}"


def main() -> int:
    """Checks all pages."""
    found: list[str] = []
    count = 0
    for page in files("*.md"):
        found += [line.replace(f"{ROOT}/", "") for line in broken_links(page)]
        for number, (language, text) in enumerate(examples(page), 1):
            count += 1
            if why := failure(language, text):
                found.append(f"{page.relative_to(ROOT)}: example {number}: {why}")
    return report("docs", found, note=f"{count} examples run")


if __name__ == "__main__":
    sys.exit(main())
