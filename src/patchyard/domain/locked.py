"""Which versions of packages a lock file names, and in which lines. Pure; opens no file."""

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from patchyard.domain.advisories import package_name
from patchyard.domain.patch_lines import Lines

LONGEST = 1000  # characters of a line that is looked at


@dataclass(frozen=True, kw_only=True)
class Locked:
    """One package at one version."""

    line: int
    ecosystem: str  # as in OSV
    package: str
    version: str


_PINNED = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[\w, .-]*\])?\s*===?\s*(?P<version>[\w.!+-]+)"
)
_NAME = re.compile(r'name = "(?P<text>[^"]+)"\s*')
_VERSION = re.compile(r'version = "(?P<text>[^"]+)"\s*')
_NPM_NAME = re.compile(r'\s*"(?:[^"]*node_modules/)?(?P<text>(?:@[\w.-]+/)?[\w.-]+)": \{\s*')
_NPM_VERSION = re.compile(r'\s*"version": "(?P<text>[^"]+)",?\s*')
_GO = re.compile(
    r"(?:require )?\s*(?P<name>[\w.~-]+(?:/[\w.~-]+)+) (?P<version>v[\w.+-]+)(?:\s.*)?"
)


def locked_in(path: str, lines: Lines) -> list[Locked]:
    """Return the packages that a file pins; nothing for a file of another kind."""
    name = path.rpartition("/")[2].lower()
    reader = next(
        (read for known, read in _FILES.items() if fnmatch.fnmatchcase(name, known)), None
    )
    return [] if reader is None else list(reader(lines))


def _pinned(lines: Lines) -> Iterator[Locked]:
    for number, text in sorted(lines.items()):
        match = _PINNED.match(text[:LONGEST].strip())
        if match:
            package = package_name("PyPI", match["name"])
            yield Locked(line=number, ecosystem="PyPI", package=package, version=match["version"])


def _of_toml(ecosystem: str) -> Callable[[Lines], Iterator[Locked]]:
    return lambda lines: _in_pairs(lines, ecosystem, _NAME, _VERSION)


def _npm(lines: Lines) -> Iterator[Locked]:
    return _in_pairs(lines, "npm", _NPM_NAME, _NPM_VERSION)


def _in_pairs(
    lines: Lines, ecosystem: str, names: re.Pattern[str], versions: re.Pattern[str]
) -> Iterator[Locked]:
    """Yield what stands as a name in one line and its version in one of the next."""
    name, at = "", 0
    for number, text in sorted(lines.items()):
        if found := names.fullmatch(text[:LONGEST]):
            name, at = found["text"], number
        elif name and number - at <= 3 and (version := versions.fullmatch(text[:LONGEST])):
            yield Locked(
                line=number,
                ecosystem=ecosystem,
                package=package_name(ecosystem, name),
                version=version["text"],
            )
            name = ""


def _go(lines: Lines) -> Iterator[Locked]:
    for number, text in sorted(lines.items()):
        if found := _GO.fullmatch(text[:LONGEST]):
            version = found["version"].removesuffix("/go.mod").removeprefix("v")
            yield Locked(line=number, ecosystem="Go", package=found["name"], version=version)


_FILES: Mapping[str, Callable[[Lines], Iterator[Locked]]] = {
    "*requirements*.txt": _pinned,
    "*requirements*.lock": _pinned,
    "constraints*.txt": _pinned,
    "poetry.lock": _of_toml("PyPI"),
    "pdm.lock": _of_toml("PyPI"),
    "uv.lock": _of_toml("PyPI"),
    "pylock*.toml": _of_toml("PyPI"),
    "cargo.lock": _of_toml("crates.io"),
    "package-lock.json": _npm,
    "npm-shrinkwrap.json": _npm,
    "go.mod": _go,
}
LOCK_FILES = tuple(_FILES)

__all__ = ["LOCK_FILES", "LONGEST", "Locked", "locked_in"]
