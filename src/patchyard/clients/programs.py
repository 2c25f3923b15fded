"""Which interpreters and compilers an environment would find, told apart without running one."""

import os
import shutil
from collections.abc import Iterable, Mapping
from posixpath import join

NAMES = (
    *("python3", "python", "uv", "conda", "node", "npm", "pnpm", "yarn", "bun", "deno"),
    *("ruby", "bundle", "perl", "php", "composer", "java", "javac", "mvn", "gradle", "dotnet"),
    *("go", "rustc", "cargo", "cc", "gcc", "g++", "clang", "make", "cmake", "ghc", "elixir", "erl"),
)
"""Programs that decide what setup installs, or how it is built."""

CHOICES = {
    "PYENV_ROOT": "version",
    "RBENV_ROOT": "version",
    "RUSTUP_HOME": "settings.toml",
    "VOLTA_HOME": "tools/user/platform.json",
}
"""Files below a version manager's root that say which version its programs stand for."""


def programs(path: Iterable[str], variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return a mark for each of NAMES found in `path`, and for what version managers choose.

    A mark is the real file, its size and its time of change: an upgrade makes another.
    """
    where = ":".join(path)
    found = {name: shutil.which(name, path=where) for name in NAMES}
    found |= {name: join(variables[name], CHOICES[name]) for name in CHOICES if name in variables}
    return {name: _mark(place) for name, place in found.items() if place is not None}


def _mark(place: str) -> str:
    real = os.path.realpath(place)
    try:
        facts = os.stat(real)  # noqa: PTH116 - dozens of times a plan
    except OSError:
        return real
    return f"{real} {facts.st_size} {facts.st_mtime_ns}"


__all__ = ["CHOICES", "NAMES", "programs"]
