"""Which changed files a person should look at before trusting a green proof."""

import re
from collections.abc import Iterable, Mapping

from patchyard.domain.anywhere import anywhere
from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.domain.held import SETTINGS, held_tests
from patchyard.domain.links import NO_LINKS, TreeLinks
from patchyard.domain.name_patterns import NamePatterns, below_any
from patchyard.domain.patch_lines import Lines
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
    "test*.py",  # what unittest takes for a test
    # which packages a gate's programs load
    "requirements*.txt", "*requirements.txt", "requirements/*", "constraints*.txt", "Pipfile*",
    "poetry.lock", "pdm.lock", "uv.lock", "pylock*.toml", "environment.y*ml",
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock*",
    "Cargo.lock", "go.sum", "go.work*", "Gemfile*", "composer.json", "composer.lock",
    "gradle.lockfile", "vendor/*", "*.whl", "*.egg", "*.jar", "*.pyz", "*.gem", "*.crate",
)  # fmt: skip

_OF_UNITTEST = re.compile(r"(?i:(?:.*/)?test[^/]*\.py)")
# Tests beside the code that they test: Rust's, and examples in the documentation of Python.
_INLINE = re.compile(r"#\[(?:\w+::)?test\b|^\s*//[/!]\s*```|^\s*>>> ")


def touches_tests(
    changes: Iterable[Change], removed: Mapping[str, Lines], links: TreeLinks = NO_LINKS
) -> bool:
    """Whether tests of the base were changed, or lines removed that hold some beside the code."""
    changes = tuple(changes)
    old = (each.old_path or each.path for each in changes if each.status != ChangeStatus.ADDED)
    if any(_OF_UNITTEST.fullmatch(path) for path in old):
        return True
    if held_tests(changes, allowed=(), links=links):
        return True
    lines = (text for known in removed.values() for text in known.values())
    return any(_INLINE.search(text[:1000]) for text in lines)


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


__all__ = ["WATCHED", "touched_proof", "touches_tests"]
