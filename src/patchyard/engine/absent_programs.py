"""What cures a proof whose program is not there: how one comes in where it runs. Pure."""

import re

from patchyard.domain.environment import ExecutionEnvironment
from patchyard.engine.setup import WITH_OWN_PATHS

NOT_FOUND = 127  # the exit code of a shell that finds no program (POSIX, 2.8.2)
_NAMED = re.compile(r"(?:^|[: ])(?P<program>[^\s:]+): (?:command )?not found$", re.MULTILINE)
_IMAGES = frozenset({ExecutionEnvironment.CONTAINER, ExecutionEnvironment.DEVCONTAINER})


def absence_cure(exit_code: int | None, output: str, kind: ExecutionEnvironment) -> str:
    """Return the cure of a command of `kind` that found no program; empty for another end."""
    if exit_code != NOT_FOUND:
        return ""
    found = _NAMED.findall(output)
    program = f"`{found[-1]}`" if found else "a program"
    missing = f"{program} is not there on {kind} (exit code {NOT_FOUND})"
    if kind in WITH_OWN_PATHS:
        return f"{missing}: install it there, or work elsewhere with `--in`"
    ways = (
        "`--setup CMD` installs it before the work begins, such as"
        " `--setup 'python3 -m venv .venv && .venv/bin/pip install pytest'` or `--setup 'npm ci'`"
    )
    image = ", or take an image that has it" if kind in _IMAGES else ""
    return f"{missing}: {ways}{image}"


__all__ = ["NOT_FOUND", "absence_cure"]
