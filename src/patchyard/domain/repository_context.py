"""What a repository is, read from the names and sizes of its files and a few small ones. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from posixpath import basename, splitext

from patchyard.domain.analysis import Context, Ownership, Share
from patchyard.domain.anywhere import named_anywhere
from patchyard.domain.detection import detect
from patchyard.domain.held import TESTS
from patchyard.domain.languages import ENDINGS
from patchyard.domain.package_json import package_of, table_of

Read = Callable[[str], str | None]  # a small file's text, None when there is none

LANGUAGES: Mapping[str, str] = {
    **ENDINGS,
    **dict.fromkeys((".ts", ".tsx", ".mts", ".cts"), "typescript"),
    **dict.fromkeys((".kt", ".kts"), "kotlin"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp"), "c++"),
    ".cjs": "javascript", ".cs": "c#", ".css": "css", ".dart": "dart", ".ex": "elixir",
    ".exs": "elixir", ".go": "go", ".html": "html", ".lua": "lua", ".m": "objective-c",
    ".md": "markdown", ".php": "php", ".pl": "perl", ".pyi": "python", ".pyx": "cython",
    ".r": "r", ".rb": "ruby", ".rst": "restructuredtext", ".scala": "scala", ".scss": "css",
    ".sh": "shell", ".sql": "sql", ".swift": "swift", ".vue": "vue", ".zig": "zig",
}  # fmt: skip
"""Languages as people name them, by the ending of a file's name."""

LANGUAGES_SHOWN = 8
FOLDERS_SHOWN = 8
GUIDES_SHOWN = 12

GUIDES = ("AGENTS.md", "CLAUDE.md", "CONTRIBUTING")
"""Files that say how a repository is worked on, those for agents first."""

_RANKS = {guide: rank for rank, guide in enumerate(GUIDES)}
GUIDE_FOLDERS = ("", ".github/", "docs/")
OWNERS = ("CODEOWNERS", ".github/CODEOWNERS", ".gitlab/CODEOWNERS", "docs/CODEOWNERS")
OWNERS_BYTES = 64 * 1024
RULES_READ = 1000
OWNERS_SHOWN = 10
GLOB_CHARS = 200
DEEPEST = 100  # folders above a file whose owners are looked for

RUNNERS = ("jest", "vitest", "mocha", "ava", "jasmine", "karma", "playwright", "cypress")
MARKS: Mapping[str, str] = {
    "conftest.py": "pytest", "pytest.ini": "pytest", "tox.ini": "tox", "noxfile.py": "nox",
    "go.mod": "go test", "Cargo.toml": "cargo test", "pom.xml": "maven", "build.gradle": "gradle",
    "build.gradle.kts": "gradle", "CMakeLists.txt": "ctest", ".rspec": "rspec",
    "phpunit.xml": "phpunit", "phpunit.xml.dist": "phpunit",
}  # fmt: skip
"""Files at the top that name what runs tests."""

COMMANDS: Mapping[str, str] = {"pytest": "pytest", "unittest": "unittest"}

_TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs"})


def context_of(sizes: Mapping[str, int], read: Read) -> Context:
    """Return what the files say; `sizes` are all plain files in bytes by path."""
    shares: dict[str, list[int]] = {}
    for path, size in sizes.items():
        language = LANGUAGES.get(splitext(path)[1].lower())
        if language is not None:
            share = shares.setdefault(language, [0, 0])
            share[0] += 1
            share[1] += size
    ranked = sorted(shares.items(), key=lambda each: (-each[1][1], each[0]))
    fits = named_anywhere(TESTS)
    tests = [path for path in sizes if fits.match(path)]
    folders = Counter(folder for path in tests if (folder := _test_folder(path)))
    return Context(
        files=len(sizes),
        bytes=sum(sizes.values()),
        languages=tuple(
            Share(language=name, files=files, bytes=size)
            for name, (files, size) in ranked[:LANGUAGES_SHOWN]
        ),
        tests=tuple(sorted(folders, key=lambda each: (-folders[each], each))[:FOLDERS_SHOWN]),
        test_files=len(tests),
        frameworks=_frameworks(sizes, read),
        guides=guides_in(sizes)[:GUIDES_SHOWN],
    )


def _test_folder(path: str) -> str:
    """Return the uppermost folder of tests that a file lies in; of one beside sources, its own."""
    parts = path.split("/")[:-1]
    for number, part in enumerate(parts):
        if part in _TEST_FOLDERS:
            return "/".join(parts[: number + 1]) + "/"
    return "/".join(parts) + "/" if parts else ""


def _frameworks(sizes: Mapping[str, int], read: Read) -> tuple[str, ...]:
    names = {path for path in sizes if "/" not in path} | {
        path.partition("/")[0] for path in sizes if "/" in path
    }

    def inside(folder: str) -> Collection[str]:
        return [path for path in sizes if path.startswith(f"{folder}/") and path.count("/") == 1]

    detected = " ".join(detect(read, names, inside).validate)
    found = [name for word, name in COMMANDS.items() if word in detected]
    found += [name for mark, name in MARKS.items() if mark in names]
    return tuple(dict.fromkeys([*found, *_runners(read)]))


def _runners(read: Read) -> Sequence[str]:
    """Return what a package.json wants that runs tests."""
    package = package_of(read("package.json"))
    wanted = {*table_of(package, "devDependencies"), *table_of(package, "dependencies")}
    return [name for name in RUNNERS if name in wanted or f"@{name}/test" in wanted]


def guides_in(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the files that say how the repository is worked on: those for agents first.

    Below other folders there may be further ones for agents; these come last.
    """
    found = []
    for path in paths:
        name = basename(path)
        kind = _RANKS.get(name, _RANKS.get((name.rpartition(".")[0] or name).upper()))
        folder = path[: len(path) - len(name)]
        if kind is not None and folder in GUIDE_FOLDERS:
            found.append((False, kind, GUIDE_FOLDERS.index(folder), path))
        elif kind == 0:
            found.append((True, kind, folder.count("/"), path))
    return tuple(path for *_, path in sorted(found))


def owners_of(text: str, paths: Sequence[str]) -> tuple[Ownership, ...]:
    """Return the lines of a CODEOWNERS file that are for `paths`, and the one for everything.

    The last line that fits a path counts for it (GitHub's and GitLab's rule).
    """
    rules = [rule for line in text.splitlines()[:RULES_READ] if (rule := _rule(line)) is not None]
    found: dict[int, list[str]] = {}
    for path in paths:
        for number in reversed(range(len(rules))):
            if _owns(rules[number][0], path):
                found.setdefault(number, []).append(path)
                break
    general = next((n for n in reversed(range(len(rules))) if rules[n][0] in {"*", "/"}), None)
    if general is not None:
        found.setdefault(general, [])
    return tuple(
        Ownership(pattern=rules[number][0], owners=rules[number][1], paths=tuple(own))
        for number, own in sorted(found.items())
    )[:OWNERS_SHOWN]


def _rule(line: str) -> tuple[str, tuple[str, ...]] | None:
    words = line.partition("#")[0].split()
    if not words or words[0].startswith("[") or len(words[0]) > GLOB_CHARS:
        return None
    return words[0], tuple(word[:GLOB_CHARS] for word in words[1:][:OWNERS_SHOWN])


def _owns(pattern: str, path: str) -> bool:
    """Whether a pattern of CODEOWNERS, which are those of .gitignore, fits a path or its folder.

    Compared part by part, so that no pattern takes more than its length times the path's.
    """
    wanted = [part for part in pattern.strip("/").split("/") if part]
    is_bound = pattern.startswith("/") or len(wanted) > 1
    parts = path.split("/")
    if len(parts) > DEEPEST:
        return False
    if pattern.endswith("/"):
        parts = parts[:-1]
    return _fits(wanted, parts) if is_bound else any(_fits(wanted, [part]) for part in parts)


def _fits(wanted: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether the first of `parts` are what `wanted` asks for, part by part."""
    here = {0}  # how many of `wanted` may be used up
    for part in parts:
        here = _closed(wanted, here)
        if len(wanted) in here:
            return True
        here = {n for n in here if wanted[n] == "**"} | {
            n + 1 for n in here if wanted[n] != "**" and fnmatchcase(part, wanted[n])
        }
        if not here:
            return False
    return len(wanted) in _closed(wanted, here)


def _closed(wanted: Sequence[str], here: Collection[int]) -> set[int]:
    """Let `**` stand for no part at all."""
    found = set(here)
    for number in sorted(here):
        at = number
        while at < len(wanted) and wanted[at] == "**":
            at += 1
            found.add(at)
    return found


__all__ = [
    "GUIDES",
    "LANGUAGES",
    "OWNERS",
    "OWNERS_BYTES",
    "Read",
    "context_of",
    "guides_in",
    "owners_of",
]
