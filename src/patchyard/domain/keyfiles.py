"""Which files of a tree decide what setup installs, by name alone."""

import fnmatch
import functools
from collections.abc import Iterable, Mapping

from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.domain.links import LinkMap, TreeLinks
from patchyard.domain.name_patterns import NamePatterns, below_any
from patchyard.domain.names import folded
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
    return any(fnmatch.fnmatchcase(tail if "/" in known else name, known) for known in NAMES)


def touched_key_files(changes: Iterable[Change], links: TreeLinks) -> list[str]:
    """Return the changed paths that are key files by one of their names."""
    changes = tuple(changes)
    paths = {path for each in changes for path in (each.path, each.old_path) if path}
    named = TreeNames(changes, links).matching(_patterns())
    return sorted(path for path in paths if path in named or is_key_file(path))


def linked_key_files(paths: Iterable[str], links: Mapping[str, str], *, top: str) -> list[str]:
    """Return which paths of a tree are key files by a name that a link of it gives them."""
    ends = {end for way in LinkMap(links.items(), top=top).ways.values() for end in way.ends}
    below = [path for path in paths if ends and _is_below(folded(path), ends)]
    entries = [Change(path=path, status=ChangeStatus.ADDED) for path in below]
    return sorted(TreeNames(entries, TreeLinks(top=top, after=links)).matching(_patterns()))


def _is_below(place: str, ends: set[str]) -> bool:
    while place and place not in ends:
        place = place.rpartition("/")[0]
    return place in ends


@functools.cache
def _patterns() -> NamePatterns:
    return NamePatterns([below_any(name) for name in NAMES])


__all__ = ["NAMES", "is_key_file", "linked_key_files", "touched_key_files"]
