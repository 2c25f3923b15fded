"""What a task asks for and how large it looks, by rules for its words: no model is asked (C18)."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from posixpath import basename

from patchyard.domain.analysis import Complexity, TaskAnalysis, TaskKind

TASK_CHARS = 64_000  # of a task that are looked at
REQUIREMENTS = 20
REQUIREMENT_CHARS = 300
NAMED = 20  # files that a task names
LARGE_FILES = 5000  # in a repository, from which a task in it is less easy

LISTED = re.compile(r"^[ \t]{0,12}(?:[-*+•]|\d{1,3}[.)])[ \t]{1,4}(?:\[[ xX]\][ \t]{1,4})?(\S.*)$")
FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)")
DEMANDS = re.compile(
    r"\b(?:must|should|shall|needs? to|has to|have to|ought to|required?|requires|ensure|make sure"
    r"|do not|don't|does not|doesn't|never|always|instead of|without|at most|at least|only)\b",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"(?<=[.!?;])[ \t]++(?=\S)")
MOST_PARTS = 21  # of a path that a task names
PATHLIKE = re.compile(rf"[\w.@+-]{{1,80}}(?:/[\w.@+-]{{1,80}}){{0,{MOST_PARTS - 1}}}")
QUESTION = re.compile(
    r"^(?:what|why|how|where|which|who|when|is|are|does|do|can|could|explain|describe)\b",
    re.IGNORECASE,
)
WIDE = re.compile(
    r"\b(?:all|every|everywhere|across|throughout|whole|entire|architecture|migrate|redesign"
    r"|rewrite|protocol|concurren\w{1,10}|thread\w{0,10}|security|performance|backwards?)\b",
    re.IGNORECASE,
)


SAID_BY: Mapping[TaskKind, str] = {
    TaskKind.BUGFIX: (
        "bug|bugs|bugfix|fix|fixes|fixed|mend|mends|repair|broken|breaks|crash|crashes|crashed"
        "|error|errors|exception|traceback|fail|fails|failing|regression|wrong|wrongly|incorrect"
        "|loses|lost|leak|leaks|hang|hangs|deadlock|unexpected|issue"
    ),
    TaskKind.TESTS: "test|tests|coverage|untested|testsuite|fixture|fixtures",
    TaskKind.DOCUMENTATION: (
        "document|documents|documentation|docs|docstring|docstrings|readme|changelog|typo|typos"
        "|spelling|tutorial|comment|comments"
    ),
    TaskKind.REFACTOR: (
        "refactor|refactoring|rename|restructure|extract|split|simplify|deduplicate|inline|tidy"
        "|cleanup|modularize|decouple|move"
    ),
    TaskKind.MAINTENANCE: (
        "bump|upgrade|update|dependency|dependencies|version|release|licence|license|lint|format"
        "|pin|deprecate|deprecated|deprecation|ci|workflow|pipeline"
    ),
    TaskKind.FEATURE: (
        "add|adds|implement|support|supports|new|introduce|allow|allows|create|extend|feature"
        "|option|enable|provide|offer"
    ),
    TaskKind.REVIEW: "review|reviews|audit",
    TaskKind.DESIGN: "design|architecture|adr|decide|decision",
}
"""Words that a kind is guessed by; where two come out alike, the first."""
OF_ALL = frozenset({"add", "adds", "create", "extend", "fix", "fixes", "new", "update"})
"""Words that a task of any kind can open with: what is added or mended says more."""


def analysed(task: str, named: Sequence[str] = (), *, files: int = 0) -> TaskAnalysis:
    """Return what `task` says; `named` are the files of the repository that it names."""
    text = task[:TASK_CHARS]
    requirements = requirements_of(text)
    kind, because = kind_of(text)
    figures = {
        "requirements": len(requirements),
        "words": len(text.split()),
        "named_files": len(named),
        "wide_words": len({word.lower() for word in WIDE.findall(text)}),
        "repository_files": files,
    }
    return TaskAnalysis(
        kind=kind,
        because=because,
        complexity=complexity_of(figures, is_understood=kind is not TaskKind.UNKNOWN),
        figures=figures,
        requirements=requirements,
        named=tuple(named),
    )


def requirements_of(task: str) -> tuple[str, ...]:
    """Return the points of a list where the task has one, else the sentences that demand.

    A task of neither is one requirement: its first line. What stands in code fences is none.
    """
    lines = _outside_fences(task)
    listed = [point[1] for line in lines if (point := LISTED.match(line[:2000]))]
    sentences = [each for line in lines for each in SENTENCE.split(line[:2000])]
    demanding = [] if listed else [each for each in sentences if DEMANDS.search(each)]
    found = listed or demanding or [line for line in lines if line.strip()][:1]
    shown = (" ".join(each.split())[:REQUIREMENT_CHARS] for each in found)
    return tuple(dict.fromkeys(filter(None, shown)))[:REQUIREMENTS]


def _outside_fences(task: str) -> list[str]:
    kept, is_code = [], False
    for line in task.splitlines():
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            kept.append(line)
    return kept


def kind_of(task: str) -> tuple[TaskKind, tuple[str, ...]]:
    """Guess what sort of work it is; return the words that say so. The first line counts more.

    Where no word says it, it is unknown.
    """
    lines = [line for line in _outside_fences(task) if line.strip()]
    first = lines[0].strip() if lines else ""
    asked = QUESTION.match(first)
    if asked and (first.endswith("?") or asked[0].lower() in {"explain", "describe"}):
        return TaskKind.QUESTION, (asked[0].lower(),)
    rest = "\n".join(lines[1:])
    best, words, most = TaskKind.UNKNOWN, tuple[str, ...](), 0
    for kind, said in SAID_BY.items():
        pattern = re.compile(rf"\b(?:{said})\b", re.IGNORECASE)
        early = list(dict.fromkeys(word.lower() for word in pattern.findall(first)))
        late = list(dict.fromkeys(word.lower() for word in pattern.findall(rest)))
        opens = bool(early) and first.lower().startswith(early[0]) and early[0] not in OF_ALL
        score = 3 * opens + 3 * len(early) + len(late)
        if score > most:
            best, words, most = kind, tuple(dict.fromkeys(early + late))[:5], score
    return best, words


def complexity_of(figures: Mapping[str, int], *, is_understood: bool = True) -> Complexity:
    """Return how large these figures look: each of them over its bound is one point.

    Without any, a task whose words were not understood is of unknown size.
    """
    points = (
        (figures["requirements"] > 3)
        + (figures["requirements"] > 8)
        + (figures["words"] > 120)
        + (figures["words"] > 500)
        + (figures["named_files"] > 3)
        + (figures["wide_words"] > 1)
        + (figures["repository_files"] > LARGE_FILES)
    )
    if points == 0:
        return Complexity.LOW if is_understood else Complexity.UNKNOWN
    return Complexity.MEDIUM if points < MANY_POINTS else Complexity.HIGH


MANY_POINTS = 3


def named_in(task: str, paths: Collection[str]) -> tuple[str, ...]:
    """Return the files of `paths` that the task names: whole, by their end, or by name alone.

    A name that several files have names none of them.
    """
    words = dict.fromkeys(
        word.removeprefix("./").rstrip(".-")
        for word in PATHLIKE.findall(task[:TASK_CHARS])
        if "." in word or "/" in word
    )
    if not words:
        return ()
    names = {basename(word) for word in words}
    fits: dict[str, list[str]] = {word: [] for word in words}
    for path in paths:
        if path.rpartition("/")[2] in names:
            for end in _ends_of(path):
                if end in fits:
                    fits[end].append(path)
    found = []
    for word, fit in fits.items():
        if word in fit or len(fit) == 1:
            found.append(word if word in fit else fit[0])
    return tuple(dict.fromkeys(found))[:NAMED]


def _ends_of(path: str) -> Iterator[str]:
    """Yield the name, the name with its folder, and so on: as long as a task can name it."""
    at = len(path)
    for _ in range(MOST_PARTS):
        at = path.rfind("/", 0, at)
        yield path[at + 1 :]
        if at < 0:
            return


__all__ = [
    "LARGE_FILES",
    "REQUIREMENTS",
    "REQUIREMENT_CHARS",
    "SAID_BY",
    "analysed",
    "complexity_of",
    "kind_of",
    "named_in",
    "requirements_of",
]
