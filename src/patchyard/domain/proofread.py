"""Which changed files a person should look at before trusting a green proof."""

from collections.abc import Iterable

from patchyard.domain.anywhere import anywhere
from patchyard.domain.changeset import Change
from patchyard.domain.held import SETTINGS
from patchyard.domain.links import NO_LINKS, TreeLinks
from patchyard.domain.name_patterns import NamePatterns, below_any
from patchyard.domain.tree_names import TreeNames

# fnmatch patterns, for any folder: a package of a larger repository has settings of its own.
WATCHED = (
    "test/*", "tests/*", "__tests__/*", "spec/*", "test_*.py", "*_test.py", "tests.py",
    "*_test.go", "*_spec.rb", "*.test.[cm][jt]s", "*.spec.[cm][jt]s", "*.test.[jt]s",
    "*.spec.[jt]s", "*.test.[jt]sx", "*.spec.[jt]sx", "conftest.py", "pyproject.toml", "setup.cfg",
    "setup.py", "tox.ini", "noxfile.py", "pytest.ini", ".coveragerc", "ruff.toml", ".ruff.toml",
    "mypy.ini", ".flake8", "package.json", "jest.config.*", "vitest.config.*", "vite.config.*",
    ".mocharc*", "karma.conf.*", "babel.config.*", ".eslintrc*", "eslint.config.*",
    "tsconfig*.json", "[Mm]akefile", "GNUmakefile", "justfile", "Rakefile", "CMakeLists.txt",
    "pom.xml", "build.gradle*", "phpunit.xml*", "Cargo.toml", "go.mod", "*.pyi",
)  # fmt: skip


def touched_proof(changes: Iterable[Change], links: TreeLinks = NO_LINKS) -> tuple[str, ...]:
    """Return the changed tests and tool settings, listed above every verdict.

    They are these by each name that links of base or result give them.
    """
    changes = tuple(changes)
    watched = anywhere((*WATCHED, *SETTINGS))
    patterns = [below_any(pattern) for pattern in (*WATCHED, *SETTINGS)]
    named = TreeNames(changes, links).matching(NamePatterns(patterns), has_beginnings=False)
    paths = {path for change in changes for path in (change.path, change.old_path) if path}
    return tuple(sorted(path for path in paths if path in named or watched.match(path)))


__all__ = ["WATCHED", "touched_proof"]
