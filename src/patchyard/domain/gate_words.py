"""Which files the text of a gate names: its command, and the files that the command leads to."""

import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from posixpath import basename, normpath, splitext

from patchyard.domain.anywhere import anywhere
from patchyard.domain.languages import ENDINGS
from patchyard.domain.package_json import package_of, table_of

_BY_COMPILERS = frozenset({"c", "go", "java", "rust"})
# Endings of source files: of the languages that images are chosen for, and of further ones. What a
# compiler takes is the product wherever a gate names it; a script that a gate names decides the
# verdict.
COMPILED = frozenset(
    {
        *(ending for ending, language in ENDINGS.items() if language in _BY_COMPILERS),
        *(".asm", ".cs", ".cu", ".cxx", ".erl", ".f90", ".fs", ".hh", ".hpp", ".hs", ".hxx"),
        *(".ipp", ".kts", ".m", ".ml", ".mm", ".proto", ".pyx", ".s", ".scala", ".swift", ".zig"),
    }
)
SCRIPTED = frozenset(
    {
        *(ending for ending, language in ENDINGS.items() if language not in _BY_COMPILERS),
        *(".cjs", ".clj", ".coffee", ".cts", ".dart", ".ex", ".exs", ".groovy", ".jl", ".lua"),
        *(".mts", ".php", ".pl", ".pm", ".pyi", ".r", ".rb", ".svelte", ".vue"),
    }
)
SHELLS = frozenset({".bash", ".bats", ".sh", ".zsh"})
MOST_WORDS = 2000  # of one text
MOST_NAMES = 8000  # of one text, with those in the folders that it goes to
MOST_FOLDERS = 20  # that one text goes to
MOST_TARGETS = 20  # of one rule
LONGEST_GLOB = 200
LONGEST_HEADER = 200
DEEPEST = 20  # folders of a path that a word may leave out

_WORD = re.compile(r"[^\s\"'`;&|<>(){}=,\[\]]+")
_FOLDER = re.compile(r"(?:\bcd|\s-C|--prefix|--directory|--chdir)[\s=]+[\"']?([^\s\"'&;|]+)")
_BARE = re.compile(r"\b(?:node|bun|tsx|ts-node)\s+(?:run\s+)?([\w./-]+)")  # an ending may lack
_MODULE = re.compile(r"\s-[A-Za-z]*m[\s=]*([A-Za-z_][\w.]*)")
_PLUGIN = re.compile(r"[\s\"']-p[\s=]*([A-Za-z_][\w.]*)")  # of pytest
_HEADER = re.compile(r"\s*\[+([\w.:\"' -]+)\]")
_PARTS = re.compile(r"[.:\"' ]+")
_SHELL = re.compile(r"#!.*\b(?:ba|da|k|z)?sh\b")
# Checkers that run nothing of the files that they are given, with what may stand before them; not
# `npm run` and the like, whose scripts may be anything. Then their words, to the command's end.
_CHECKER = re.compile(
    r"((?:^|[;&|(\n])\s*(?:(?:npx|bunx|pnpm\s+exec|python3?\s+-m|uv\s+run|poetry\s+run)\s+"
    r"|(?:\.venv|venv|node_modules)/\.?bin/)?"
    r"(?:autopep8|bandit|basedpyright|biome|black|eslint|flake8|isort|mypy|oxlint|prettier"
    r"|pycodestyle|pydocstyle|pyflakes|pylint|pyright|rubocop|ruff|standard|tsc|vulture)\s)"
    r"([^;&|()<>`$\"'\n]*)"
)
_PLAIN = re.compile(r"[\w./-]+")
# Variables that hold options of a program, and those by which one loads files of the language.
_OF_OPTIONS: Mapping[str, str] = {"MAKEFLAGS": "make", "PYTEST_ADDOPTS": "pytest"}
_REQUIRING: Mapping[str, tuple[str, str]] = {"PERL5OPT": ("[mM]", ".pm"), "RUBYOPT": ("r", ".rb")}
_ENDINGS = (".js", ".cjs", ".mjs", ".ts")  # that a name in JavaScript may lack
_OF_JAVASCRIPT = (".js", ".cjs", ".mjs", ".ts", ".mts", ".cts", ".json")
_VITE = tuple(f"vite.config{ending}" for ending in _OF_JAVASCRIPT)
# Programs, and the files at the top of a folder that say what they do.
_STARTERS: Mapping[str, tuple[str, ...]] = {
    "ava": ("package.json", *(f"ava.config{ending}" for ending in _OF_JAVASCRIPT)),
    "bun": ("package.json",),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "hatch": ("pyproject.toml", "hatch.toml"),
    "invoke": ("tasks.py",),
    "jest": ("package.json", *(f"jest.config{ending}" for ending in _OF_JAVASCRIPT)),
    "just": ("justfile", "Justfile", ".justfile"),
    "karma": tuple(f"karma.conf{ending}" for ending in _OF_JAVASCRIPT),
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "mocha": (
        *("package.json", ".mocharc.js", ".mocharc.cjs", ".mocharc.json", ".mocharc.jsonc"),
        *(".mocharc.yml", ".mocharc.yaml"),
    ),
    "nox": ("noxfile.py",),
    "npm": ("package.json",),
    "npx": ("package.json",),
    "pdm": ("pyproject.toml",),
    "phpunit": ("phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"),
    "playwright": tuple(f"playwright.config{ending}" for ending in _OF_JAVASCRIPT),
    "pnpm": ("package.json",),
    "poe": ("pyproject.toml",),
    "pytest": ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"),
    "rake": ("Rakefile", "rakefile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "tox": ("tox.ini", "setup.cfg", "pyproject.toml"),
    "vitest": (*(f"vitest.config{ending}" for ending in _OF_JAVASCRIPT), *_VITE),
    "yarn": ("package.json",),
}
# Words by which npm and its like install, and the scripts that they run then.
_INSTALLING = frozenset(
    {"add", "ci", "clean-install", "i", "install", "install-ci-test", "rebuild"}
)
_AT_INSTALL = frozenset({"install", "prepare"})
_IN_PACKAGES = ("ava", "jest", "mocha")  # whose settings may stand in `package.json`
_LISTS = frozenset(name.lower() for names in _STARTERS.values() for name in names)


@dataclass(frozen=True, kw_only=True)
class Named:
    """What one text names."""

    words: tuple[str, ...]  # names and globs as they stand there, each once
    starting: tuple[str, ...] = ()  # files that programs in it go by, in any of its folders


def is_source(path: str) -> bool:
    """Whether a file is source code by its ending; scripts of a shell are not among it."""
    return splitext(path)[1].casefold() in COMPILED | SCRIPTED


def words_of(text: str) -> Named:
    """Return the names in a text, as paths from the top. They need not be files."""
    text = _CHECKER.sub(_unchecked, text)
    found = _words(text)
    programs = {basename(word) for word in found}
    plugins = _PLUGIN.findall(text) if "pytest" in programs else []
    for module in (*_MODULE.findall(text), *plugins):
        inside = module.replace(".", "/")
        found |= dict.fromkeys((f"{inside}.py", f"{inside}/__main__.py", f"{inside}/__init__.py"))
    for started in map(_plain, _BARE.findall(text)):
        found |= dict.fromkeys(_whole(started))
    gone_to = dict.fromkeys(_plain(folder) for folder in _FOLDER.findall(text))
    folders = ("", *itertools.islice(gone_to, MOST_FOLDERS))
    starting = dict.fromkeys(
        _joined(folder, name)
        for program in sorted(programs & _STARTERS.keys())
        for name in _STARTERS[program]
        for folder in folders
    )
    below = (_joined(folder, word) for folder in folders if folder for word in found)
    bare = (word for word in found if "/" in word and not splitext(word)[1])
    whole = itertools.chain.from_iterable(map(_whole, bare))
    further = itertools.islice(itertools.chain(below, whole), MOST_NAMES)
    names = dict.fromkeys(itertools.chain(found, further))
    return Named(words=tuple(names), starting=tuple(starting))


def text_of_variable(name: str, value: str) -> str:
    """Return a variable as the text of a command that names what programs load by it."""
    words = [word for word in re.split(r"[\s,=]+", value) if not word.startswith("-")]
    if name == "PYTEST_PLUGINS":
        return " ".join(("pytest", *(f"-p {word}" for word in words)))
    if name in _OF_OPTIONS:
        return f"{_OF_OPTIONS[name]} {value}"
    if name == "DJANGO_SETTINGS_MODULE":
        return f"python -m {value}"
    if name == "NODE_OPTIONS":
        return "\n".join((value, *(f"node {word}" for word in words)))
    if name in _REQUIRING:
        option, ending = _REQUIRING[name]
        loaded = re.findall(rf"(?:^|\s)-{option}\s*([^\s=]+)", value)
        places = [each.replace("::", "/").removesuffix(ending) for each in loaded]
        return "\n".join((value, *(f"{place}{ending}" for place in places)))
    return value


def _unchecked(command: re.Match[str]) -> str:
    """Return a checker's command without the source files that it looks at: they are the product.

    A word behind an option stays, since it may be a file that the checker loads.
    """
    kept: list[str] = []
    before = ""
    for word in command[2].split():
        is_option = before.startswith("-") and before != "--" and "=" not in before
        is_script = _PLAIN.fullmatch(word) and splitext(word)[1].casefold() in SCRIPTED
        if is_option or not is_script or word.startswith("-"):
            kept.append(word)
        before = word
    return command[1] + " ".join(kept)


def _whole(bare: str) -> Iterator[str]:
    """Yield the files that a module of JavaScript can be by its bare name."""
    for name in (bare, f"{bare}/index"):
        yield from (f"{name}{ending}" for ending in _ENDINGS)


def _words(text: str) -> dict[str, None]:
    found: dict[str, None] = {}
    for match in _WORD.finditer(text):
        for word in dict.fromkeys((match[0], *match[0].split(":", MOST_WORDS))):
            if plain := _plain(word):
                found[plain] = None
            if len(found) >= MOST_WORDS:
                return found
    return found


def _joined(folder: str, name: str) -> str:
    return normpath(f"{folder}/{name}") if folder else name


def _plain(word: str) -> str:
    """Return a word as a path from the top: without variables of folders before it."""
    bare = re.sub(r"^(?:\$+[\w@]*|\.)?/+", "", word)
    return normpath(bare) if bare and not bare.startswith("-") else bare


def may_lead_on(path: str) -> bool:
    """Whether a file of that name can lead to others, as `leads_on` says."""
    name, ending = basename(path).lower(), splitext(path)[1].lower()
    return _is_list(name, ending) or name == "package.json" or ending in {"", *SHELLS}


def leads_on(path: str, text: str, words: Collection[str]) -> str:
    """Return the part of a file that names what it starts; empty for a program of its own.

    Shell scripts, Makefiles, lists of tasks and settings of test runners lead to other files. Of
    `package.json`, `pyproject.toml`, `setup.cfg`, a Makefile and a justfile it is the part that
    `words`, by which it was come to, ask for. The code of other languages is not followed.
    """
    name, ending = basename(path).lower(), splitext(path)[1].lower()
    if name == "package.json":
        short = {"test"} if {"t", "tst"} & set(words) else set()
        installing = _AT_INSTALL if _INSTALLING & set(words) else set()
        return _wanted(_scripts(text), {*words, *short, *installing})
    if name in {"pyproject.toml", "setup.cfg"}:
        return _sections(text, {word.casefold() for word in words})
    if name.startswith(("makefile", "gnumakefile", "justfile", ".justfile")):
        rules, rest = _rules(text)
        first = next((name for name in rules if not name.startswith(".")), "")
        wanted = words if set(words) & rules.keys() else {*words, first}
        return rest + _wanted(rules, wanted)
    is_shell = ending in SHELLS or (not ending and _SHELL.match(text) is not None)
    return text if is_shell or _is_list(name, ending) else ""


def _sections(text: str, words: Collection[str]) -> str:
    """Return the sections whose headers have one of the words, such as `[tool.pytest]`."""
    found: list[str] = []
    is_wanted = False
    for line in text.split("\n"):
        if header := _HEADER.match(line[:LONGEST_HEADER]):
            asking = set(_PARTS.split(header[1].casefold())) & set(words)
            is_wanted = bool(asking)
            found += sorted(asking)  # of which program it is
        elif is_wanted:
            found.append(line)
    return "\n".join(found)


def _wanted(parts: Mapping[str, str], words: Collection[str]) -> str:
    """Return the texts of the parts that words name, and of those that these name in turn."""
    found: dict[str, str] = {}
    waiting = sorted(words)
    while waiting:
        word = waiting.pop()
        for name in (word, f"pre{word}", f"post{word}"):
            if name in parts and name not in found:
                found[name] = parts[name]
                waiting += re.findall(r"[^\s\"'`;&|()]+", parts[name])
    return "\n".join(found.values())


def _rules(text: str) -> tuple[Mapping[str, str], str]:
    """Return the rules of a Makefile by target, each with what it needs, and the lines outside.

    A rule with very many targets is asked for whatever is made.
    """
    rules: dict[str, list[str]] = {}
    rest: list[str] = []
    current = [rest]
    for line in text.replace("\\\n", " ").split("\n"):
        targets, needs = _rule(line)
        if targets and len(targets) <= MOST_TARGETS:
            current = [rules.setdefault(name, []) for name in targets]
        elif targets or line[:1].strip():
            current = [rest]
        for lines in current:
            lines.append(needs if targets else line)
    return {name: "\n".join(lines) for name, lines in rules.items()}, "\n".join([*rest, ""])


def _rule(line: str) -> tuple[list[str], str]:
    """Return the targets of a line and what they need; no target where it begins no rule."""
    head, colon, needs = line.partition(":")
    is_rule = colon and line[:1].strip() and not set(head) & set("=#")
    return (head.split(), needs) if is_rule and not needs.lstrip(":").startswith("=") else ([], "")


def _scripts(text: str) -> Mapping[str, str]:
    """Return the scripts of a `package.json` by name, and settings of test runners in it."""
    package = package_of(text)
    settings = {name: json.dumps(package[name]) for name in _IN_PACKAGES if name in package}
    scripts = table_of(package, "scripts")
    return {**settings, **{name: str(script) for name, script in scripts.items()}}


def _is_list(name: str, ending: str) -> bool:
    return name in _LISTS or ending in {".mk", ".make", ".just"} or name.startswith("makefile")


def named_among(paths: Iterable[str], words: Collection[str]) -> frozenset[str]:
    """Return those of `paths` that one of `words` names, without case.

    A word with a folder or an ending names a file in any folder too, since a command may change
    its own. Globs name no source files but scripts of a shell: `ruff check src/*.py` looks at the
    product.
    """
    folded = {word.casefold() for word in words}
    wild = (word for word in folded if set("*?") & set(word) and len(word) <= LONGEST_GLOB)
    globs = anywhere(tuple(sorted(wild)) or ("",))
    return frozenset(path for path in paths if _is_named(path.casefold(), folded, globs))


def _is_named(path: str, words: Collection[str], globs: re.Pattern[str]) -> bool:
    ending = splitext(path)[1]
    if ending in COMPILED:
        return False
    parts = path.split("/")[-DEEPEST:]
    tails = ["/".join(parts[start:]) for start in range(len(parts))]
    if path in words or any(tail in words for tail in tails if "/" in tail or "." in tail):
        return True
    if ending in SCRIPTED:
        return False
    return globs.match(path) is not None


__all__ = [
    "COMPILED",
    "DEEPEST",
    "LONGEST_GLOB",
    "LONGEST_HEADER",
    "MOST_FOLDERS",
    "MOST_NAMES",
    "MOST_TARGETS",
    "MOST_WORDS",
    "SCRIPTED",
    "SHELLS",
    "Named",
    "is_source",
    "leads_on",
    "may_lead_on",
    "named_among",
    "text_of_variable",
    "words_of",
]
