"""Which files of a tree decide what setup installs, by name alone."""

import fnmatch
import functools
import re
from collections.abc import Iterable

from patchyard.domain.changeset import Change
from patchyard.domain.links import TreeLinks
from patchyard.domain.name_patterns import NamePatterns, below_any
from patchyard.domain.tree_names import TreeNames

NAMES: tuple[str, ...] = (
    # Python
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "*requirements*.txt",
    "*requirements*.in",
    "*requirements*.lock",
    "requirements/*.txt",
    "requirements/*.in",
    "requirements/*.lock",
    "constraints*.txt",
    "pipfile",
    "pipfile.lock",
    "poetry.lock",
    "pdm.lock",
    "uv.lock",
    "pylock*.toml",
    "environment*.y*ml",
    "tox.ini",
    ".python-version",
    # JavaScript
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "bun.lock*",
    ".nvmrc",
    ".npmrc",
    # others
    "cargo.toml",
    "cargo.lock",
    "go.mod",
    "go.sum",
    "gemfile",
    "gemfile.lock",
    "composer.json",
    "composer.lock",
    "build.gradle*",
    "settings.gradle*",
    "gradle.lockfile",
    "pom.xml",
    "mix.exs",
    "mix.lock",
    ".tool-versions",
    "mise.toml",
)


def is_key_file(path: str) -> bool:
    """Whether a change to `path` (relative, POSIX) can change what setup installs."""
    lowered = path.lower()
    folder, _, name = lowered.rpartition("/")
    tail = f"{folder.rpartition('/')[2]}/{name}"
    return bool(_any_of(has_folder=False).match(name) or _any_of(has_folder=True).match(tail))


def touched_key_files(changes: Iterable[Change], links: TreeLinks) -> list[str]:
    """Return the changed paths that are key files by one of their names."""
    changes = tuple(changes)
    paths = {path for each in changes for path in (each.path, each.old_path) if path}
    named = TreeNames(changes, links).matching(_patterns())
    return sorted(path for path in paths if path in named or is_key_file(path))


@functools.cache
def _any_of(*, has_folder: bool) -> re.Pattern[str]:
    """Return all names with a folder, or all without, as one expression: a tree has many paths."""
    names = (known for known in NAMES if ("/" in known) is has_folder)
    return re.compile("|".join(map(fnmatch.translate, names)))


@functools.cache
def _patterns() -> NamePatterns:
    return NamePatterns([below_any(name) for name in NAMES])


__all__ = ["NAMES", "is_key_file", "touched_key_files"]
