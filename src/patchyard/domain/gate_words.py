"""Which files the text of a gate names: its command, and the files that the command leads to."""

import itertools
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from posixpath import basename, normpath, splitext

from patchyard.domain.anywhere import anywhere

# Endings of source files. What a compiler takes is the product wherever a gate names it; a script
# that a gate names decides the verdict.
COMPILED = frozenset(
    {
        *(".asm", ".c", ".cc", ".cpp", ".cs", ".cxx", ".f90", ".go", ".h", ".hh", ".hpp", ".hs"),
        *(".java", ".kt", ".m", ".ml", ".mm", ".rs", ".s", ".scala", ".swift", ".zig"),
    }
)
SCRIPTED = frozenset(
    {
        *(".cjs", ".clj", ".dart", ".ex", ".exs", ".jl", ".js", ".jsx", ".lua", ".mjs", ".php"),
        *(".pl", ".pm", ".py", ".pyi", ".r", ".rb", ".ts", ".tsx", ".vue", ".svelte"),
    }
)
SHELLS = frozenset({".bash", ".bats", ".sh", ".zsh"})
STARTED = ("", *sorted(SCRIPTED | SHELLS), ".json")  # endings that a starter may leave out
MOST_WORDS = 2000  # of one text
MOST_FOLDERS = 20  # that one text goes to

_WORD = re.compile(r"[^\s\"'`;&|<>(){}=,\[\]]+")
_FOLDER = re.compile(r"(?:\bcd|\s-C|--prefix|--directory|--chdir)[\s=]+[\"']?([^\s\"'&;|]+)")
_MODULE = re.compile(r"\s-m[\s=]*([A-Za-z_][\w.]*)")
_SHELL = re.compile(r"#!.*\b(?:ba|da|k|z)?sh\b")
# Programs, and the files at the top of a folder that say what they do.
_STARTERS: Mapping[str, tuple[str, ...]] = {
    "bun": ("package.json",),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "hatch": ("pyproject.toml", "hatch.toml"),
    "invoke": ("tasks.py",),
    "just": ("justfile", "Justfile", ".justfile"),
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "nox": ("noxfile.py",),
    "npm": ("package.json",),
    "npx": ("package.json",),
    "pdm": ("pyproject.toml",),
    "pnpm": ("package.json",),
    "poe": ("pyproject.toml",),
    "rake": ("Rakefile", "rakefile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "tox": ("tox.ini", "setup.cfg", "pyproject.toml"),
    "yarn": ("package.json",),
}
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
    found = _words(text)
    programs = {basename(word) for word in found}
    for module in _MODULE.findall(text):
        inside = module.replace(".", "/")
        found |= dict.fromkeys((f"{inside}.py", f"{inside}/__main__.py", f"{inside}/__init__.py"))
    gone_to = dict.fromkeys(_plain(folder) for folder in _FOLDER.findall(text))
    folders = ("", *itertools.islice(gone_to, MOST_FOLDERS))
    starting = dict.fromkeys(
        _joined(folder, name)
        for program in sorted(programs & _STARTERS.keys())
        for name in _STARTERS[program]
        for folder in folders
    )
    below = [_joined(folder, word) for folder in folders if folder for word in found]
    return Named(words=tuple(dict.fromkeys((*found, *below))), starting=tuple(starting))


def _words(text: str) -> dict[str, None]:
    found: dict[str, None] = {}
    for match in _WORD.finditer(text):
        for word in dict.fromkeys((match[0], *match[0].split(":"))):
            if plain := _plain(word):
                found[plain] = None
        if len(found) >= MOST_WORDS:
            break
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

    Shell scripts, Makefiles and lists of tasks lead to other files. Of `package.json`, a Makefile
    and a justfile it is the part that `words`, by which it was come to, ask for. The code of other
    languages is not followed.
    """
    name, ending = basename(path).lower(), splitext(path)[1].lower()
    if name == "package.json":
        short = {"test"} if {"t", "tst"} & set(words) else set()
        return _wanted(_scripts(text), {*words, *short})
    if name.startswith(("makefile", "gnumakefile", "justfile", ".justfile")):
        rules, rest = _rules(text)
        first = next((name for name in rules if not name.startswith(".")), "")
        wanted = words if set(words) & rules.keys() else {*words, first}
        return rest + _wanted(rules, wanted)
    is_shell = ending in SHELLS or (not ending and _SHELL.match(text) is not None)
    return text if is_shell or _is_list(name, ending) else ""


def _wanted(parts: Mapping[str, str], words: Collection[str]) -> str:
    """Return the texts of the parts that words name, and of those that these name in turn."""
    found: dict[str, str] = {}
    known = set(words)
    while True:
        new = {
            name: text
            for name, text in parts.items()
            if name not in found
            and (name in known or name.removeprefix("pre").removeprefix("post") in known)
        }
        if not new:
            return "\n".join(found.values())
        found |= new
        for text in new.values():
            known |= {match[0] for match in re.finditer(r"[^\s\"'`;&|()]+", text)}


def _rules(text: str) -> tuple[Mapping[str, str], str]:
    """Return the rules of a Makefile by target, each with what it needs, and the lines outside."""
    rules: dict[str, list[str]] = {}
    rest: list[str] = []
    current = [rest]
    for line in text.replace("\\\n", " ").split("\n"):
        targets, needs = _rule(line)
        if targets:
            current = [rules.setdefault(name, []) for name in targets]
        elif line[:1].strip():
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
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    scripts = document.get("scripts") if isinstance(document, Mapping) else None
    known = scripts if isinstance(scripts, Mapping) else {}
    return {name: str(script) for name, script in known.items()}


def _is_list(name: str, ending: str) -> bool:
    return name in _LISTS or ending in {".mk", ".make", ".just"} or name.startswith("makefile")


def named_among(paths: Iterable[str], words: Collection[str]) -> frozenset[str]:
    """Return those of `paths` that one of `words` names, without case.

    A word with a folder or an ending names a file in any folder too, since a command may change
    its own. A script's ending may be left out. Globs name no source files but scripts of a shell:
    `ruff check src/*.py` looks at the product.
    """
    folded = {word.casefold() for word in words}
    globs = anywhere(tuple(sorted(word for word in folded if set("*?") & set(word))) or ("",))
    return frozenset(path for path in paths if _is_named(path.casefold(), folded, globs))


def _is_named(path: str, words: Collection[str], globs: re.Pattern[str]) -> bool:
    ending = splitext(path)[1]
    if ending in COMPILED:
        return False
    parts = path.split("/")
    tails = ["/".join(parts[start:]) for start in range(len(parts))]
    if any(tail in words for tail in tails if tail == path or "/" in tail or "." in tail):
        return True
    bare = path.removesuffix(ending)
    if ending in STARTED and bare in words:
        return True
    if ending in SCRIPTED:
        return False
    return globs.match(path) is not None


__all__ = [
    "COMPILED",
    "MOST_FOLDERS",
    "MOST_WORDS",
    "SCRIPTED",
    "SHELLS",
    "Named",
    "is_source",
    "leads_on",
    "may_lead_on",
    "named_among",
    "words_of",
]
