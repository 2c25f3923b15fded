"""What cures a proof whose program is not there: how one comes in where it runs. Pure."""

import re

from patchyard.domain.environment import ExecutionEnvironment
from patchyard.engine.setup import WITH_OWN_PATHS

NOT_FOUND = 127  # the exit code of a shell that finds no program (POSIX, 2.8.2)
_NAMED = re.compile(
    r"(?:^|: )(?P<program>[^\s:]+): (?:command )?not found$"
    r"|^(?:.*: )?(?:line )?\d+: (?P<path>[^\s:]+): No such file or directory$"
    r"|^(?:\S*/)?env: [\u2018']?(?P<by_env>[^\s:\u2019']+)[\u2019']?: No such file or directory$",
    re.MULTILINE,
)
"""What shells and env(1) say of a program that they do not find."""
_IMAGES = frozenset({ExecutionEnvironment.CONTAINER, ExecutionEnvironment.DEVCONTAINER})


def absence_cure(exit_code: int | None, output: str, kind: ExecutionEnvironment) -> str:
    """Return the cure of a command of `kind` that found no program; empty for another end."""
    if exit_code != NOT_FOUND:
        return ""
    found = [match[match.lastgroup or 0] for match in _NAMED.finditer(output)]
    missing = (
        f"`{found[-1]}` is not there on {kind} (exit code {NOT_FOUND})"
        if found
        else f"exit code {NOT_FOUND} usually means that a program is not there on {kind}"
    )
    if kind in WITH_OWN_PATHS:
        return f"{missing}: look at its spelling, install it there, or work elsewhere with `--in`"
    ways = (
        "look at its spelling, or run again with `--setup CMD`, which installs it before the work"
        " begins, such as `--setup 'python3 -m venv .venv && .venv/bin/pip install pytest'` or"
        " `--setup 'npm ci'`"
    )
    image = ", or take an image that has it" if kind in _IMAGES else ""
    return f"{missing}: {ways}{image}"


__all__ = ["NOT_FOUND", "absence_cure"]
