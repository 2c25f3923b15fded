"""What the steps of a recipe ask for while they are carried out: calls, or a replacement in a text.

A procedure is a generator that yields these and is sent what came of them; it does nothing itself.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from patchyard.clients.substitution import Substituted, Substitution
from patchyard.contracts.actor import Answered, Wanted
from patchyard.domain.decision import Proposal
from patchyard.domain.globs import fixed_folder, matches

BATCH = 50  # calls of one turn
DEEPEST_FOLDER = 64  # deeper ones are loops of links
FULL_SEARCH = 100  # `search_files` shows no more than this


@dataclass(frozen=True, kw_only=True)
class Calls:
    """Calls to make, one after the other; answered with as many results."""

    wanted: tuple[Wanted, ...]
    text: str = ""  # for people: what this is for


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a procedure ended."""

    summary: str = ""
    failure: str = ""
    proposals: tuple[Proposal, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Found:
    """The files that a glob names now."""

    paths: tuple[str, ...] = ()  # relative, sorted
    problem: str = ""  # why they could not be listed
    unreadable: int = 0  # folders that were closed, so that files in them are not named


T = TypeVar("T")
Question = Calls | Substitution
Reply = Sequence[Answered] | Substituted | None
Procedure = Generator[Question, Reply, T]


@dataclass
class Counter:
    """Numbers the calls of one session, the same way each time it is replayed."""

    last: int = 0

    def wanted(self, name: str, **arguments: Any) -> Wanted:
        """Return a call with the next reference."""
        self.last += 1
        return Wanted(ref=f"step-{self.last}", name=name, arguments=arguments)


@dataclass
class Asking:
    """The questions that procedures share. Each method is itself a procedure."""

    counter: Counter = field(default_factory=Counter)

    def one(self, name: str, text: str = "", **arguments: Any) -> Procedure[Answered]:
        """Make one call."""
        answers = yield Calls(wanted=(self.counter.wanted(name, **arguments),), text=text)
        return _answers(answers)[0]

    def many(
        self, name: str, each: Sequence[Mapping[str, Any]], text: str = ""
    ) -> Procedure[list[Answered]]:
        """Make a call for each set of arguments, a batch a turn."""
        answered: list[Answered] = []
        for batch in _batches(each):
            wanted = tuple(self.counter.wanted(name, **arguments) for arguments in batch)
            answers = yield Calls(wanted=wanted, text=text)
            answered += _answers(answers)
        return answered

    def substitution(self, wanted: Substitution) -> Procedure[Substituted]:
        """Replace in a text."""
        done = yield wanted
        if not isinstance(done, Substituted):
            raise TypeError("a substitution was answered with something else")
        return done

    def files(self, glob: str) -> Procedure[Found]:
        """Find the files that `glob` names: by a search, or folder by folder when they are many."""
        answer = yield from self.one("search_files", f"find {glob}", query=glob)
        if not answer.result.success:
            return Found(problem=answer.result.message)
        listed = _texts(answer.result.data.get("files"))
        if answer.result.data.get("truncated") or len(listed) >= FULL_SEARCH:
            return (yield from self._walk(glob))
        closed = answer.result.data.get("unreadable")
        return Found(
            paths=tuple(sorted(path for path in set(listed) if matches(glob, path))),
            unreadable=closed if isinstance(closed, int) else 0,
        )

    def _walk(self, glob: str) -> Procedure[Found]:
        found: set[str] = set()
        level = [fixed_folder(glob)]
        for _ in range(DEEPEST_FOLDER):
            if not level:
                break
            asked = [{"path": folder or "."} for folder in level]
            answers = yield from self.many("list_directory", asked, f"list folders for {glob}")
            below: list[str] = []
            for folder, answer in zip(level, answers, strict=True):
                if not answer.result.success:
                    return Found(problem=answer.result.message)
                for name, is_folder in _entries(answer.result.data.get("contents")):
                    path = f"{folder}/{name}" if folder else name
                    if not is_folder:
                        found.add(path)
                    elif matches("**", f"{path}/x"):
                        below.append(path)
            level = sorted(below)
        return Found(paths=tuple(sorted(path for path in found if matches(glob, path))))


def _answers(reply: Reply) -> Sequence[Answered]:
    if reply is None or isinstance(reply, Substituted):
        raise TypeError("calls were answered with something else")
    return reply


def _batches(each: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    return (each[start : start + BATCH] for start in range(0, len(each), BATCH))


def _texts(value: Any) -> list[str]:
    """The toolbox's answers are claims: what is no text is passed over."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _entries(value: Any) -> Iterator[tuple[str, bool]]:
    for entry in value if isinstance(value, list) else []:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            continue
        if entry.get("type", "file") in {"file", "directory"}:  # no links, no special files
            yield entry["name"], entry.get("is_directory") is True


__all__ = [
    "BATCH",
    "DEEPEST_FOLDER",
    "FULL_SEARCH",
    "Asking",
    "Calls",
    "Counter",
    "Ending",
    "Found",
    "Procedure",
    "Question",
    "Reply",
]
