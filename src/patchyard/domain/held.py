"""Which changed files a proof takes from the base: settings of its gates, and tests."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from patchyard.domain.anywhere import anywhere, named_anywhere
from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.domain.links import LINK, NO_LINKS, TreeLinks
from patchyard.domain.name_patterns import NamePatterns, below_any
from patchyard.domain.protected import is_allowed
from patchyard.domain.tree_names import TreeNames

Entry = tuple[str, str]  # mode and blob
Entries = Mapping[str, Entry | None]  # by path; None: the base has no such file

# Patterns for any folder: what steers test runners, linters, checkers and scanners.
SETTINGS = (
    "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "noxfile.py",
    ".coveragerc", ".coveragerc.toml", "ruff.toml", ".ruff.toml", "mypy.ini", ".mypy.ini",
    ".flake8", ".pylintrc*", "pylintrc*", ".pydocstyle", ".isort.cfg",
    "pyrightconfig.json", "bandit.y*ml", ".bandit", ".semgrep/*", ".semgrep.y*ml",
    ".semgrepignore", ".secrets.baseline",
    "jest.config.*", "vitest.config.*", ".mocharc*", "karma.conf.*", ".nycrc*", ".c8rc*",
    ".eslintrc*", ".eslintrc*/*", "eslint.config.*", ".eslintignore",
    ".prettierrc*", "prettier.config.*", ".prettierignore", ".stylelintrc*",
    "biome.json*", "tsconfig*.json", "tsconfig*/*.json",
    ".rspec", "vitest.workspace.*", "playwright.config.*", "CTestCustom.cmake", ".bazelrc",
    ".golangci.y*ml", "clippy.toml", ".clippy.toml", "rustfmt.toml", ".rustfmt.toml",
    "checkstyle*.xml", "checkstyle*/*.xml", "phpunit.xml*", "sonar-project.properties",
    "codecov.y*ml", ".codecov.y*ml",
    "[Mm]akefile", "GNUmakefile", "justfile", "Rakefile",
    # what makes tools leave files out, or start other programs than they would
    ".gitignore", ".ignore", ".editorconfig", ".npmrc", ".cargo/config", ".cargo/config.toml",
    ".mvn/*",
    # what runs in the place of a tool: those that setup installs, and what Python starts by itself
    ".venv", ".venv/*", "node_modules", "node_modules/*",
    "sitecustomize.py", "usercustomize.py", "site-packages/*.pth", "dist-packages/*.pth",
    # which plugins Python's tools load: a folder of the tree is a place of packages too
    "*.egg-info/*", "*.dist-info/*",
)  # fmt: skip
# Modules of tools that `python -m TOOL` would find in the current folder first.
TOOLS = frozenset(
    {
        *("_pytest", "bandit", "black", "coverage", "iniconfig", "mkdocs", "mypy", "packaging"),
        *("pluggy", "pygments", "pylint", "pytest", "ruff", "setuptools", "sphinx", "xdist"),
    }
)
# Settings beside other things, so that only the settings are taken: see domain/held_parts.py.
MIXED = ("pyproject.toml", "setup.cfg", "package.json")
TESTS = (
    "test/*", "tests/*", "__tests__/*", "spec/*", "src/test/*", "test_*.py", "*_test.py",
    "tests.py", "conftest.py", "*_test.go", "*_spec.rb", "*.test.[cm][jt]s", "*.spec.[cm][jt]s",
    "*.test.[jt]s", "*.spec.[jt]s", "*.test.[jt]sx", "*.spec.[jt]sx", "*.snap",
)  # fmt: skip


def held_settings(
    changes: Iterable[Change],
    *,
    further: Sequence[str],
    allowed: Sequence[str],
    links: TreeLinks = NO_LINKS,
) -> Entries:
    """Return what the base has where changed files steer gates, or fit a glob of `further`.

    They do so by each name that links of the base give them, without case. What the user allowed
    to change counts as it is.
    """
    known = tuple(changes)
    fits = _fitting(SETTINGS, known, links, further=further)
    new = [each for each in _unrenamed(known) if each.status == ChangeStatus.ADDED]
    shadowing = {each.path for each in new if shadows(each.path, is_link=each.mode == LINK)}
    return _held(known, lambda path: fits(path) or path in shadowing, allowed)


def shadows(path: str, *, is_link: bool = False) -> bool:
    """Whether Python, started at the top, would take this file for a module that tools import.

    A link may lead to a folder, which is a module by its bare name.
    """
    top = path.partition("/")[0].partition(".")[0]
    is_python = path.endswith((".py", ".pyc", ".so")) or (is_link and path == top)
    return is_python and (top in sys.stdlib_module_names or top in TOOLS)


def held_tests(
    changes: Iterable[Change], *, allowed: Sequence[str], links: TreeLinks = NO_LINKS
) -> Entries:
    """Return what the base has where tests were changed; nothing where all of them are new."""
    known = tuple(changes)
    fits = _fitting(TESTS, known, links, has_beginnings=False)
    found = _held(known, fits, allowed)
    is_any = any(entry is not None for entry in found.values())
    is_steered = any(path.rpartition("/")[2] == "conftest.py" for path in found)
    return found if is_any or is_steered else {}


def mixed(
    changes: Iterable[Change], *, allowed: Sequence[str], links: TreeLinks = NO_LINKS
) -> tuple[Change, ...]:
    """Return changed files that hold settings beside other things; none is a rename."""
    known = tuple(changes)
    fits = _fitting(MIXED, known, links)
    return tuple(
        change
        for change in _unrenamed(known)
        if fits(change.path) and not is_allowed(change.path, tuple(allowed))
    )


def _unrenamed(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield a rename as what went and what came."""
    for change in changes:
        if change.old_path is None:
            yield change
            continue
        yield Change(
            path=change.old_path,
            status=ChangeStatus.DELETED,
            old_mode=change.old_mode,
            old_blob=change.old_blob,
        )
        yield Change(
            path=change.path, status=ChangeStatus.ADDED, mode=change.mode, blob=change.blob
        )


def old_entry(change: Change) -> Entry | None:
    """Return what the base has where a change is."""
    return (change.old_mode, change.old_blob) if change.old_mode and change.old_blob else None


def _fitting(
    patterns: Sequence[str],
    changes: Iterable[Change],
    links: TreeLinks,
    *,
    further: Sequence[str] = (),
    has_beginnings: bool = True,
) -> Callable[[str], bool]:
    """Return whether a path fits by its own name, or by one that a link of the base gives it.

    `further` are globs of a user, whose stars reach over folders. A link of the result gives no
    file a name here: a change could hide from its proof behind one. The link itself is held
    instead, where it decides what lies at a name that fits.
    """
    known, asked = named_anywhere(tuple(patterns)), anywhere(tuple(further) or ("",))
    names = NamePatterns([below_any(pattern) for pattern in (*patterns, *further)])
    of_base = TreeLinks(top=links.top, before=links.before)
    named = set(TreeNames(changes, of_base).matching(names, has_beginnings=has_beginnings))
    both = TreeNames(changes, links)
    named |= both.changed_links & both.matching(names, has_beginnings=has_beginnings).keys()
    return lambda path: path in named or bool(known.match(path) or asked.match(path))


def _held(
    changes: Iterable[Change], fits: Callable[[str], bool], allowed: Sequence[str]
) -> Entries:
    found: dict[str, Entry | None] = {}
    for change in _unrenamed(changes):
        if fits(change.path) and not is_allowed(change.path, tuple(allowed)):
            found[change.path] = old_entry(change)
    return found


__all__ = [
    "LINK",
    "MIXED",
    "SETTINGS",
    "TESTS",
    "TOOLS",
    "Entries",
    "Entry",
    "held_settings",
    "held_tests",
    "mixed",
    "old_entry",
    "shadows",
]
