"""What the first of the seven steps comes to: a task's own words, and of what repository (C16).

The kind and the complexity are guesses by rule, and are called so wherever they are shown. What a
model's strategy says of both goes before them (`domain/assessing.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from patchyard.domain.body import Body


class TaskKind(StrEnum):
    """What sort of work a task is."""

    BUGFIX = "bugfix"
    FEATURE = "feature"
    REFACTOR = "refactor"
    TESTS = "tests"
    DOCUMENTATION = "documentation"
    MAINTENANCE = "maintenance"
    QUESTION = "question"
    REVIEW = "review"
    DESIGN = "design"
    UNKNOWN = "unknown"


class Complexity(StrEnum):
    """How large a task looks."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    UNKNOWN = "unknown"


KINDS = tuple(kind for kind in TaskKind if kind is not TaskKind.UNKNOWN)
SIZES = tuple(size for size in Complexity if size is not Complexity.UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class Share:
    """What of a repository is written in one language."""

    language: str
    files: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Context:
    """What is known of a repository without running any of it."""

    files: int = 0
    bytes: int = 0
    languages: tuple[Share, ...] = ()  # most bytes first
    tests: tuple[str, ...] = ()  # folders with tests, most files first
    test_files: int = 0
    frameworks: tuple[str, ...] = ()  # what runs the tests, by the files at the top
    guides: tuple[str, ...] = ()  # files that say how it is worked on


@dataclass(frozen=True, kw_only=True)
class Ownership:
    """Who owns what a task names, by one line of CODEOWNERS."""

    pattern: str
    owners: tuple[str, ...]
    paths: tuple[str, ...] = ()  # of those that the task names; empty: the line is for all files


@dataclass(frozen=True, kw_only=True)
class Guide:
    """A file that says how the repository is worked on. Its text is the repository's: input."""

    path: str
    text: str  # its beginning, without what nobody sees
    cut: int = 0  # characters that are left out


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """One definition of the map."""

    path: str
    line: int
    kind: str  # its keyword: def, class, func
    name: str


@dataclass(frozen=True, kw_only=True)
class TaskAnalysis:
    """What a task's own words say."""

    kind: TaskKind = TaskKind.UNKNOWN
    because: tuple[str, ...] = ()  # the words that the kind was guessed by; empty: none were there
    complexity: Complexity = Complexity.UNKNOWN
    figures: Mapping[str, int] = field(default_factory=dict)  # what the complexity rests on
    requirements: tuple[str, ...] = ()  # the task's own points, in its order
    named: tuple[str, ...] = ()  # files of the repository that it names


@dataclass(frozen=True, kw_only=True)
class TaskAnalysed:
    """The first of the seven steps is done: what is asked for, and of what repository (C16)."""

    tree: str  # of the base that was looked at
    analysis: TaskAnalysis
    context: Context = field(default_factory=Context)
    owners: tuple[Ownership, ...] = ()  # of what the task names
    guidance: Body = field(default_factory=Body)  # a list of {path, text}
    map: Body = field(default_factory=Body)  # a list of Symbols, the most worth knowing first
    symbols: int = 0  # in the map
    left_out: int = 0  # files that the map could not read: too large, binary, made by a program
    is_cached: bool = False  # the repository was known already
    seconds: float = 0.0
    problem: str = ""  # why the repository could not be looked at


__all__ = [
    "KINDS",
    "SIZES",
    "Complexity",
    "Context",
    "Guide",
    "Ownership",
    "Share",
    "Symbol",
    "TaskAnalysed",
    "TaskAnalysis",
    "TaskKind",
]
