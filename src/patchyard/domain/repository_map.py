"""The map of a repository: its definitions, ranked by how many other files use their names.

Pure and deterministic: the same files, task and budget give the same map, however it was come by.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from patchyard.domain.analysis import Symbol
from patchyard.domain.anywhere import named_anywhere
from patchyard.domain.definitions import Definition, language_at
from patchyard.domain.held import TESTS

CHARACTERS_PER_TOKEN = 4  # as requests are estimated
SHORTEST = 3  # of a name that is worth a line
FIRST = 1000  # rows that are looked at whatever the task says
HITS = 200  # rows that one word of the task brings in
SOUGHT = 40  # words of the task that are sought
LEAST_WORD = 4  # letters of a word that is sought in names
RARE = 10  # names with a word of the task, up to which it is rare
SCALE = 100  # of scores, which are whole numbers

EXACT, NAMED_FILE, PART, PLACE = 60.0, 30.0, 5.0, 2.0  # what the task's words multiply a score by
PLAIN, INNER, HIDDEN, TESTING = 0.1, 0.5, 0.2, 0.2  # what makes a name say less

ELSEWHERE = re.compile(
    r"(?:^|/)(?:node_modules|vendor|third_party|site-packages|\.venv|dist|bower_components)/"
    r"|\.min\.[cm]?js$|_pb2\.pyi?$|\.pb\.go$|\.d\.ts$"
)
"""Files of others, and made ones: none of what they define is worth a line."""

WORD = re.compile(r"[^\W\d]\w{1,99}+")
PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[^\W\d_a-zA-Z]+")
COMMON = frozenset(
    {
        *("about", "after", "again", "also", "back", "been", "before", "being", "both", "cannot"),
        *("change", "code", "does", "done", "each", "else", "ensure", "every", "file", "files"),
        *("from", "function", "have", "here", "into", "just", "like", "line", "lines", "make"),
        *("makes", "mend", "method", "more", "must", "name", "names", "need", "needs", "never"),
        *("only", "other", "over", "please", "repository", "same", "should", "some", "such"),
        *("task", "test", "tests", "than", "that", "their", "them", "then", "there", "these"),
        *("they", "this", "those", "through", "under", "until", "used", "uses", "using", "very"),
        *("want", "wants", "what", "when", "where", "which", "while", "will", "with", "within"),
        *("without", "work", "works", "would", "your"),
    }
)
"""Words that say nothing of what a task is about."""

Counts = Mapping[str, Mapping[bytes, int]]  # language → word → files of it that hold the word


@dataclass(frozen=True, kw_only=True)
class MappedFile:
    """One file and what it defines."""

    path: str
    rows: str = ""  # see `rows_of`


@dataclass(frozen=True, kw_only=True)
class SymbolTable:
    """All definitions of a tree, the most used first, as text that is searched and not parsed.

    A row is `name TAB kind TAB line TAB depth TAB @file TAB score LF`; `file` counts in `paths`,
    `depth` is 1 for what stands below something else.
    """

    rows: bytes = b""
    paths: Sequence[str] = field(default_factory=tuple)


def is_mapped(path: str) -> bool:
    """Whether the file at `path` is read for the map: there are rules for it, and it is our own."""
    return bool(language_at(path)) and ELSEWHERE.search(path) is None


def rows_of(definitions: Iterable[Definition]) -> str:
    """Return how the rows begin of what a file defines, `name TAB kind TAB line TAB depth LF`.

    That is the first definition of each name, by line, without names that say nothing.
    """
    found: dict[str, Definition] = {}
    for each in definitions:
        name = each.name
        if len(name) >= SHORTEST and not (name.startswith("__") and name.endswith("__")):
            found.setdefault(name, each)
    return "".join(
        [f"{name}\t{kind}\t{line}\t{is_inner:d}\n" for name, kind, line, is_inner in found.values()]
    )


def table_of(files: Sequence[MappedFile], counts: Counts) -> SymbolTable:
    """Rank what `files` define. `counts` are the words of these same files."""
    begun = [each.rows.split("\n")[:-1] for each in files]
    definers: dict[str, Counter[str]] = {}
    for each, rows in zip(files, begun, strict=True):
        own = definers.setdefault(language_at(each.path), Counter())
        own.update([row[: row.index("\t")] for row in rows])
    used = {language: _used(own, counts.get(language, {})) for language, own in definers.items()}
    ranked: dict[int, list[str]] = {}
    for number, (each, rows) in enumerate(zip(files, begun, strict=True)):
        known = used[language_at(each.path)]
        share = TESTING if is_test(each.path) else 1.0
        for row in rows:
            worth = known.get(row[: row.index("\t")], UNUSED)[row[-1] == "1"]
            score = int(share * worth)
            ranked.setdefault(score, []).append(f"{row}\t@{number}\t{score}\n")
    text = "".join(["".join(ranked[score]) for score in sorted(ranked, reverse=True)])
    return SymbolTable(rows=text.encode(), paths=tuple(each.path for each in files))


UNUSED = (0.0, 0.0)


def _used(
    definers: Mapping[str, int], counts: Mapping[bytes, int]
) -> Mapping[str, tuple[float, float]]:
    """Return what each name is worth that other files use: at the top of a file, and below."""
    found = {}
    for name, own in definers.items():
        others = counts.get(name.encode(), 0) - own
        if others > 0:
            worth = SCALE * math.log2(1 + others / own)
            at_top = weight(name, is_inner=False)
            found[name] = worth * at_top, worth * at_top * INNER
    return found


def files_of(table: SymbolTable) -> Sequence[MappedFile]:
    """Return the files that a table was made of."""
    found: list[list[tuple[int, str]]] = [[] for _ in table.paths]
    for row in table.rows.decode().split("\n")[:-1]:
        begun, number, _ = row.rsplit("\t", 2)
        found[int(number[1:])].append((int(begun.split("\t", 3)[2]), begun))
    return [
        MappedFile(path=path, rows="".join([f"{begun}\n" for _, begun in sorted(own)]))
        for path, own in zip(table.paths, found, strict=True)
    ]


def weight(name: str, *, is_inner: bool) -> float:
    """Return how much a mention of the name says: `page` is any page, `first_page` is this one."""
    found = 1.0 if is_telling(name) else PLAIN
    if is_inner:
        found *= INNER
    return found * HIDDEN if name.startswith("_") else found


def is_telling(name: str) -> bool:
    """Whether it is more than a word that anything could be called by."""
    bare = name.strip("_")
    is_word = bare.isalpha() and (bare.islower() or bare.isupper())
    return not is_word and len(bare) > SHORTEST


def is_test(path: str) -> bool:
    """Whether a file is a test by its name or folder."""
    return named_anywhere(TESTS).match(path) is not None


@dataclass(frozen=True, kw_only=True)
class Sought:
    """What a task says that a map can be sought by."""

    exact: frozenset[str]  # words that could be names, as they stand
    parts: tuple[str, ...]  # pieces of them in lower case, which names may hold
    paths: frozenset[str] = frozenset()  # files that the task names


def sought_in(task: str, paths: Collection[str] = ()) -> Sought:
    """Return what of a task's words is sought; `paths` are the files that it names."""
    words = list(dict.fromkeys(WORD.findall(task)))
    exact = [word for word in words if len(word) >= SHORTEST and word.lower() not in COMMON]
    pieces = [piece.lower() for word in words for piece in PIECE.findall(word)]
    parts = [each for each in pieces if len(each) >= LEAST_WORD and each not in COMMON]
    return Sought(
        exact=frozenset(exact[: 4 * SOUGHT]),
        parts=tuple(dict.fromkeys(parts))[:SOUGHT],
        paths=frozenset(paths),
    )


def chosen(table: SymbolTable, sought: Sought, tokens: int) -> Sequence[Symbol]:
    """Return the definitions that fit `tokens`, the first of them the most worth knowing."""
    ranked = sorted(_weighed(table, sought))
    room = tokens * CHARACTERS_PER_TOKEN
    symbols: list[Symbol] = []
    seen: set[str] = set()
    for _, number, line, name, kind in ranked:
        symbol = Symbol(path=table.paths[number], line=line, kind=kind, name=name)
        room -= len(_line(symbol)) + (0 if symbol.path in seen else len(symbol.path) + 1)
        if room < 0:
            break
        seen.add(symbol.path)
        symbols.append(symbol)
    return symbols


_Weighed = tuple[float, int, int, str, str]


def _weighed(table: SymbolTable, sought: Sought) -> Iterator[_Weighed]:
    low = table.rows.lower()
    rarity = {part: _rarity(low.count(part.encode())) for part in sought.parts}
    for start in sorted(_candidates(table, low, sought)):
        end = table.rows.index(b"\n", start)
        name, kind, line, depth, at, score = table.rows[start:end].decode().split("\t")
        number = int(at[1:])
        least = SCALE * weight(name, is_inner=depth == "1")
        value = (int(score) + least) * _fit(name, table.paths[number], sought, rarity)
        yield -value, number, int(line), name, kind


def _rarity(hits: int) -> float:
    """Return what a word says that so many names hold: nearly nothing when all of them do."""
    return 1 / (1 + math.log2(1 + hits / RARE))


def _fit(name: str, path: str, sought: Sought, rarity: Mapping[str, float]) -> float:
    """Return what the words of the task make of a name's score."""
    low, place = name.lower(), path.lower()
    if name in sought.exact and is_telling(name):
        found = EXACT
    else:
        found = 1 + PART * sum(rarity[part] for part in sought.parts if part in low)
    if any(part in place for part in sought.parts):
        found *= PLACE
    return found * NAMED_FILE if path in sought.paths else found


def _candidates(table: SymbolTable, low: bytes, sought: Sought) -> set[int]:
    """Return where the rows begin that could be worth a line."""
    found, at = {0} if table.rows else set(), 0
    for _ in range(FIRST):
        at = table.rows.find(b"\n", at) + 1
        if not 0 < at < len(table.rows):
            break
        found.add(at)
    for part in sought.parts:
        found |= _rows_with(low, part.encode(), name_only=True)
    for name in sought.exact:
        found |= _rows_with(low, b"\n" + name.lower().encode() + b"\t", name_only=False)
    for number, path in enumerate(table.paths if sought.paths else ()):
        if path in sought.paths:
            found |= _rows_with(low, b"\t@%d\t" % number, name_only=False)
    return found


def _rows_with(rows: bytes, wanted: bytes, *, name_only: bool) -> set[int]:
    found: set[int] = set()
    at = rows.find(wanted)
    while at >= 0 and len(found) < HITS:
        begins = wanted.startswith(b"\n")
        start = at + 1 if begins else rows.rfind(b"\n", 0, at) + 1
        if not name_only or b"\t" not in rows[start:at]:
            found.add(start)
        at = rows.find(wanted, rows.find(b"\n", at + begins) if name_only else at + 1)
    return found


def _line(symbol: Symbol) -> str:
    return f"  {symbol.line} {symbol.kind} {symbol.name}\n"


def fitting(symbols: Iterable[Symbol], characters: int) -> str:
    """Return the map as text, cut to the first of `symbols` that `characters` hold.

    Files stand in the order of their first symbol, and in each of them symbols by line.
    """
    files: dict[str, list[Symbol]] = {}
    for symbol in symbols:
        is_new = symbol.path not in files
        characters -= len(_line(symbol)) + (len(symbol.path) + 1 if is_new else 0)
        if characters < 0:
            break
        files.setdefault(symbol.path, []).append(symbol)
    parts = []
    for path, own in files.items():
        parts.append(f"{path}\n")
        parts += [_line(each) for each in sorted(own, key=lambda each: (each.line, each.name))]
    return "".join(parts).rstrip("\n")


__all__ = [
    "CHARACTERS_PER_TOKEN",
    "COMMON",
    "ELSEWHERE",
    "Counts",
    "MappedFile",
    "Sought",
    "SymbolTable",
    "chosen",
    "files_of",
    "fitting",
    "is_mapped",
    "is_telling",
    "is_test",
    "rows_of",
    "sought_in",
    "table_of",
    "weight",
]
