"""The documents keep their word: links lead somewhere, marked examples run, the CLI page is true.

An example is run where its fence says so: `sh run` or `python run`. Those of a page run one after
the other as in one terminal: in a folder that is empty at first, each in the folder where the one
before it ended, with an empty home; each must end with 0 within a minute.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tree import ROOT, files, report

__all__ = ["broken_links", "examples", "failures", "orphans"]

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


def orphans(folder: Path) -> Iterator[str]:
    """Pages below a folder that its index does not name."""
    named = set(_LINK.findall((folder / "index.md").read_text(encoding="utf-8")))
    for page in sorted(folder.rglob("*.md")):
        name = str(page.relative_to(folder))
        if name != "index.md" and name not in named:
            yield f"{page}: not in {folder}/index.md"


def examples(page: Path) -> Iterator[tuple[str, str]]:
    """Language and text of the examples that are marked to be run."""
    for match in _FENCE.finditer(page.read_text(encoding="utf-8")):
        yield match.group(1), match.group(2)


def failures(page: Path) -> Iterator[str]:
    """Runs the examples of a page one after the other, as in one terminal; what went wrong."""
    with tempfile.TemporaryDirectory(prefix="patchyard-docs-") as folder:
        Path(folder).chmod(0o711)  # an agent's own user passes through to its workspace
        for name in ("home", "work", "tmp"):
            Path(folder, name).mkdir()
        at = Path(folder, "at")  # the folder where the next one begins
        at.symlink_to("work")
        for number, (language, text) in enumerate(examples(page), 1):
            if why := _failure(language, text, Path(folder)):
                yield f"{page}: example {number}: {why}"
        _unmount_below(folder)


def _unmount_below(folder: str) -> None:
    """Take away the workspaces that stay mounted until their plan is applied."""
    mounts = Path("/proc/mounts").read_text(errors="surrogateescape").splitlines()
    for place in reversed([line.split()[1] for line in mounts]):
        if place.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], check=True)


def _failure(language: str, text: str, folder: Path) -> str | None:
    """What went wrong with one example, or None."""
    command = ["sh", "-eu"] if language == "sh" else [sys.executable, "-"]
    text += f'ln -sfn "$PWD" {folder / "at"}\n' if language == "sh" else ""
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    home = folder / "home"
    try:
        run = subprocess.run(
            command,
            check=False,
            input=text,
            capture_output=True,
            text=True,
            cwd=(folder / "at").resolve(),
            env={
                "PATH": here,
                "HOME": str(home),
                "PATCHYARD_HOME": str(home / "state"),
                "WORKSPACE_DIR": str(folder / "workspaces"),
                "TMPDIR": str(folder / "tmp"),
            },
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
    found = [line.replace(f"{ROOT}/", "") for line in orphans(ROOT / "docs")]
    count = 0
    for page in files("*.md"):
        found += [line.replace(f"{ROOT}/", "") for line in broken_links(page)]
        count += len(list(examples(page)))
        found += [line.replace(f"{ROOT}/", "") for line in failures(page)]
    return report("docs", found, note=f"{count} examples run")


if __name__ == "__main__":
    sys.exit(main())
