"""Which changed files a person should look at before trusting a green proof."""

import re
from collections.abc import Iterable, Sequence

from patchyard.domain.anywhere import named_anywhere
from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.domain.held import SETTINGS, TESTS, shadows
from patchyard.domain.links import LINK, NO_LINKS, TreeLinks
from patchyard.domain.name_patterns import NamePatterns, below_any
from patchyard.domain.names_of_tests import is_of_tests
from patchyard.domain.tree_names import TreeNames

# Patterns for any folder: what steers a build, beside the settings that gates hold.
WATCHED = (
    "pyproject.toml", "setup.cfg", "setup.py", "package.json", "vite.config.*", "babel.config.*",
    "CMakeLists.txt", "*.cmake", "meson.build", "*.mk", "pom.xml", "Cargo.toml", "go.mod", "*.pyi",
    "build.gradle*", "settings.gradle*", "buildSrc/*", "build.rs", "mix.exs", "deno.json*",
    "BUILD", "BUILD.bazel", "WORKSPACE", "MODULE.bazel", "*.bzl",
    ".babelrc*", ".swcrc*", "jest.setup.*", "vitest.setup.*", "setupTests.*", ".env", ".env.*",
    "Package.swift", "Package@swift*.swift", "build.zig*", "project.clj", "build.clj", "deps.edn",
    "tests.edn", "build.sbt", "project/*.scala", "project/*.sbt", "build.sc", "build.mill",
    "*.cabal", "Setup.hs", "rebar.config*", "dune", "dune-project", "Makefile.PL", "Build.PL",
    "build-logic/*", "xtask/*", "magefile.go", "magefiles/*", "config/test.exs",
    "config/config.exs", "*.csproj",
    "*.fsproj", "*.runsettings", "Directory.*.props", "Directory.*.targets", "dart_test.yaml",
    "dodo.py", "fabfile.py", "pavement.py", "hatch_build.py", "conanfile.py", "SConstruct",
    "SConscript", "wscript", "configure", "configure.ac", "Makefile.am", "Makefile.in",
    "junit-platform.properties", "META-INF/services/org.junit*",
    "Gruntfile.*", "gulpfile.*", "webpack.config.*", "rollup.config.*", "esbuild.config.*",
    "rspack.config.*", "craco.config.*", "metro.config.*", "ava.config.*", "cypress.config.*",
    "wdio.conf.*", "web-test-runner.config.*", "nightwatch.conf.*", "protractor.conf.*", ".taprc",
    "jasmine.json", "jasmine.*js", "bunfig.toml", "nx.json", "turbo.json", "lerna.json",
    # what runs in the place of a package manager, or says where packages are found
    ".pnp.*", ".yarn/releases/*", ".yarn/plugins/*", ".yarn/sdks/*", ".yarn/patches/*", ".yarnrc*",
    ".pnpmfile.*", "pnpmfile.js", "pnpm-workspace.yaml",
    # which toolchain they are
    "rust-toolchain", "rust-toolchain.toml", ".tool-versions", ".python-version", ".nvmrc",
    ".node-version", ".ruby-version", ".java-version", "mise.toml", ".mise.toml", "global.json",
    # which packages a gate's programs load
    "requirements*.txt", "*requirements.txt", "requirements/*.txt", "requirements/*/*.txt",
    "constraints*.txt",
    "Pipfile*", "poetry.lock", "pdm.lock", "uv.lock", "pylock*.toml", "environment.y*ml",
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock*",
    "Cargo.lock", "go.sum", "go.work*", "Gemfile*", "composer.json", "composer.lock",
    "gradle.lockfile", "vendor/*", "*.whl", "*.egg", "*.jar", "*.pyz", "*.gem", "*.crate",
)  # fmt: skip

# Tests by further names: those of other runners, and what tests compare with.
CHECKING = (
    *TESTS, "test.[cm]js", "test.js", "*-test.[cm]js", "*-test.js", "*_test.[cm]js", "*_test.js",
    "*_tests.py", "tests.rs", "*_test.cc", "*_test.cpp", "*[Ss]pec.[jt]s", "*_spec.ts",
    "t/*.t", "t/*/*.t", "*.feature", "features/steps/*", "testdata/*", "*.golden",
    "__snapshots__/*", "__mocks__/*",
)  # fmt: skip
_OF_UNITTEST = re.compile(r"(?i:(?:.*/)?test[^/]*\.py)")


def touches_tests(changes: Iterable[Change], links: TreeLinks = NO_LINKS) -> bool:
    """Whether tests of the base were changed, or what they compare with."""
    old = [each for each in changes if each.status != ChangeStatus.ADDED]
    paths = (path for each in old for path in (each.path, each.old_path) if path)
    return bool(_tests_among(old, links, CHECKING)) or any(map(is_of_tests, paths))


def touched_proof(changes: Iterable[Change], links: TreeLinks = NO_LINKS) -> tuple[str, ...]:
    """Return the changed tests and tool settings, listed above every verdict.

    They are these by each name that links of base or result give them. Added files that Python
    would take for a module of its own or of a tool are among them.
    """
    changes = tuple(changes)
    found = _tests_among(changes, links, (*CHECKING, *WATCHED, *SETTINGS))
    added = (each for each in changes if each.status == ChangeStatus.ADDED)
    found |= {each.path for each in added if shadows(each.path, is_link=each.mode == LINK)}
    found |= {
        path
        for each in changes
        for path in (each.path, each.old_path)
        if path and is_of_tests(path)
    }
    return tuple(sorted(found))


def _tests_among(
    changes: Sequence[Change], links: TreeLinks, patterns: tuple[str, ...]
) -> set[str]:
    """Return the paths of changes that fit a pattern, or are a test by unittest's own."""
    known = named_anywhere(patterns)
    below = NamePatterns([below_any(pattern) for pattern in patterns])
    named = TreeNames(changes, links).matching(below, has_beginnings=False)
    paths = {path for change in changes for path in (change.path, change.old_path) if path}
    return {
        path for path in paths if path in named or known.match(path) or _OF_UNITTEST.fullmatch(path)
    }


__all__ = ["CHECKING", "WATCHED", "touched_proof", "touches_tests"]
