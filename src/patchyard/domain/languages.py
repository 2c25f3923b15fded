"""Which language a repository is written in, and which image that means. Pure; opens no file.

Four tiers, the first that says something decides: what builds it at the top, what fixes a version
at the top, what builds it one folder down, and what most files are named (C+).
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename, splitext

BUILDS: Mapping[str, str] = {
    "pyproject.toml": "python",
    "setup.py": "python",
    "setup.cfg": "python",
    "requirements.txt": "python",
    "Pipfile": "python",
    "package.json": "javascript",
    "Cargo.toml": "rust",
    "go.mod": "go",
    "go.work": "go",
    "pom.xml": "java",
    "build.gradle": "java",
    "build.gradle.kts": "java",
    "CMakeLists.txt": "c",
    "configure.ac": "c",
    "meson.build": "c",
}
"""What builds a repository, the surest first."""

VERSIONS: Mapping[str, str] = {
    ".python-version": "python",
    ".nvmrc": "javascript",
    ".node-version": "javascript",
    "rust-toolchain": "rust",
    "rust-toolchain.toml": "rust",
    ".go-version": "go",
    ".java-version": "java",
    ".sdkmanrc": "java",
}

ENDINGS: Mapping[str, str] = {
    ".py": "python",
    ".js": "javascript",
    ".jsx": "javascript",
    ".mjs": "javascript",
    ".ts": "javascript",
    ".tsx": "javascript",
    ".rs": "rust",
    ".go": "go",
    ".java": "java",
    ".kt": "java",
    ".c": "c",
    ".cc": "c",
    ".cpp": "c",
    ".h": "c",
}

IMAGES: Mapping[str, str] = {
    "": "debian:stable",
    "c": "gcc:14",
    "go": "golang:1",
    "java": "maven:3-eclipse-temurin-21",
    "javascript": "node:22",
    "python": "python:3",
    "rust": "rust:1",
}
"""By language; empty: none was found. Docker's official images, which nobody pulls for you."""

BASE = "base"  # in settings: the image where no language is found
FOLDERS_SEEN = 40  # one folder down


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """The language of a repository, and what says so."""

    language: str = ""  # empty: none was found
    because: str = ""  # a path


def language_of(names: Collection[str], inside: Callable[[str], Collection[str]]) -> Spoken:
    """Return the language of the repository with these top-level `names`.

    `inside` returns the paths of what lies in a folder at the top; nothing for no folder.
    """
    for known in (BUILDS, VERSIONS):
        found = next((name for name in known if name in names), None)
        if found is not None:
            return Spoken(language=known[found], because=found)
    below = _below(names, inside)
    built = sorted((list(BUILDS).index(basename(p)), p) for p in below if basename(p) in BUILDS)
    if built:
        return Spoken(language=BUILDS[basename(built[0][1])], because=built[0][1])
    return _most([*names, *below])


def _below(names: Collection[str], inside: Callable[[str], Collection[str]]) -> Sequence[str]:
    folders = [name for name in sorted(names) if not name.startswith(".")][:FOLDERS_SEEN]
    return [path for folder in folders for path in inside(folder)]


def _most(paths: Sequence[str]) -> Spoken:
    files = {path: ENDINGS[ending] for path in paths if (ending := splitext(path)[1]) in ENDINGS}
    counted = Counter(files.values())
    if not counted:
        return Spoken()
    language = min(counted, key=lambda name: (-counted[name], name))
    first = min(path for path, own in files.items() if own == language)
    return Spoken(language=language, because=first)


def image_for(spoken: Spoken, own: Mapping[str, str]) -> str:
    """Return the image for a language; `own` are those that settings name, by language or BASE."""
    return own.get(spoken.language or BASE) or IMAGES[spoken.language]


__all__ = [
    "BASE",
    "BUILDS",
    "ENDINGS",
    "FOLDERS_SEEN",
    "IMAGES",
    "VERSIONS",
    "Spoken",
    "image_for",
    "language_of",
]
