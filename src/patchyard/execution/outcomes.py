"""What operations come to: typed, frozen results, whose defaults are the fallback of a failure.

What a toolbox says is a claim: a field that is missing, or of another type, keeps its default.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from patchyard.domain.errors import PatchyardError, UsageError

ROWS = "rows"  # of a field's metadata: the record of each of its rows
COUNTS = "counts"  # of a field: a mapping of numbers


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an operation came to. A failure is told by `error`, never raised."""

    success: bool = False  # it did what it was asked; a command: exit code 0
    message: str = ""  # one line for people
    error: str | None = None  # code, such as FILE_NOT_FOUND; None on success
    retryable: bool = False  # nothing was done, or it only reads: the same call may be made again


@dataclass(frozen=True, kw_only=True)
class ReadFileResult(Outcome):
    """A page of a text file; lines count from 1, `end_line` is among them."""

    content: str = ""
    total_lines: int = 0
    start_line: int = 0
    end_line: int = 0
    size: int = 0  # bytes of the whole file
    truncated: bool = False
    path: str = ""  # from the workspace


@dataclass(frozen=True, kw_only=True)
class WriteFileResult(Outcome):
    """A file that was written whole."""

    is_new_file: bool = False
    lines_added: int = 0
    lines_removed: int = 0
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class DeleteFileResult(Outcome):
    """A file that is not there any more."""

    was_already_deleted: bool = False
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class SearchReplaceResult(Outcome):
    """A text that occurred once and is another one now."""

    is_new_file: bool = False
    lines_added: int = 0
    lines_removed: int = 0
    occurrences: int = 0
    old_length: int = 0  # characters
    new_length: int = 0
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class DirectoryEntry:
    """One name in a folder."""

    name: str = ""
    type: str = "file"  # file, directory, link, special
    is_directory: bool = False
    relative_path: str = ""  # of a recursive listing, from the listed folder


@dataclass(frozen=True, kw_only=True)
class ListDirectoryResult(Outcome):
    """The entries of a folder, folders first."""

    path: str = ""
    contents: tuple[DirectoryEntry, ...] = field(default=(), metadata={ROWS: DirectoryEntry})
    total_count: int = 0
    truncated: bool = False
    unreadable: int = 0  # folders and files that were closed, and passed over


@dataclass(frozen=True, kw_only=True)
class SearchFilesResult(Outcome):
    """Paths whose name holds the query, or fits it as a pattern."""

    files: tuple[str, ...] = field(default=(), metadata={ROWS: str})
    query: str = ""
    count: int = 0
    truncated: bool = False
    unreadable: int = 0  # folders and files that were closed, and passed over


@dataclass(frozen=True, kw_only=True)
class GrepMatch:
    """One line that fits."""

    file: str = ""
    line_number: int = 0
    content: str = ""  # 250 characters at most


@dataclass(frozen=True, kw_only=True)
class GrepSearchResult(Outcome):
    """Lines that fit a regular expression; none is a success."""

    matches: tuple[str, ...] = field(default=(), metadata={ROWS: str})  # FILE:LINE:CONTENT
    detailed_matches: tuple[GrepMatch, ...] = field(default=(), metadata={ROWS: GrepMatch})
    match_count: int = 0
    query: str = ""
    truncated: bool = False
    unreadable: int = 0  # folders and files that were closed, and passed over


@dataclass(frozen=True, kw_only=True)
class CodePiece:
    """A piece of a file that shares words with the query."""

    id: str = ""  # PATH:LINE
    path: str = ""
    line_start: int = 0
    line_end: int = 0
    content: str = ""
    relevance: float = 0.0  # 1 for the best


@dataclass(frozen=True, kw_only=True)
class CodebaseSearchResult(Outcome):
    """Pieces of the code base, best first."""

    results: tuple[CodePiece, ...] = field(default=(), metadata={ROWS: CodePiece})
    search_terms: tuple[str, ...] = field(default=(), metadata={ROWS: str})
    query: str = ""
    truncated: bool = False
    unreadable: int = 0  # folders and files that were closed, and passed over


@dataclass(frozen=True, kw_only=True)
class CommandResult(Outcome):
    """A command, or a job in the background: what it wrote, and how it ended where it has."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None  # None: it runs, or nobody knows; -N: killed by signal N
    signal: str = ""  # such as SIGKILL
    command: str = ""
    is_background: bool = False
    is_running: bool = False
    job_id: str = ""  # of a background command: asks for it and ends it
    security_level: str = ""  # SAFE, APPROVAL_REQUIRED or BLOCKED: a hint, nothing is refused by it
    elapsed_s: float = 0.0
    truncated: bool = False
    limit: str = ""  # of the environment, which it hit: memory, disk, processes, ...
    usage: Mapping[str, float] = field(  # what it used, as far as that is counted
        default_factory=dict, metadata={COUNTS: True}
    )


Result = TypeVar("Result", bound=Outcome)


def outcome_of(kind: type[Result], payload: Mapping[str, Any], **known: Any) -> Result:
    """Return what a toolbox's answer says; `known` wins over it."""
    is_done = payload.get("success") is True
    error = payload.get("error")
    said = error if isinstance(error, str) else "UNKNOWN_ERROR"
    claims = _claims(kind, payload, leaving=frozenset({"error", "retryable", "success"}))
    return kind(**{**claims, "success": is_done, "error": None if is_done else said, **known})


def failed(
    kind: type[Result], what: str, error: PatchyardError | OSError, /, **known: Any
) -> Result:
    """Return the fallback of an operation that `error` ended: what happened, its code, its cure."""
    if isinstance(error, OSError):
        message = f"Failed to {what}: {error.strerror or error}"
        return kind(message=message, error="IO_ERROR", **known)
    code = "VALIDATION_ERROR" if isinstance(error, UsageError) else error.code.upper()
    hint = f" ({error.hint})" if error.hint else ""
    message = f"Failed to {what}: {error.message}{hint}"
    return kind(**{"message": message, "error": code, "retryable": error.retryable, **known})


def _claims(kind: Any, payload: Mapping[str, Any], *, leaving: frozenset[str]) -> dict[str, Any]:
    """Return the fields of `kind` that the answer has, each of the type it should have."""
    fitting: dict[str, Any] = {}
    for each in dataclasses.fields(kind):
        value = payload.get(each.name)
        if each.name in leaving or value is None:
            continue
        rows = each.metadata.get(ROWS)
        if rows is not None:
            fitting[each.name] = _rows(rows, value)
        elif COUNTS in each.metadata:
            fitting[each.name] = _counts(value)
        elif _is_like(value, each.default):
            fitting[each.name] = value
    return fitting


def _counts(value: object) -> Mapping[str, float]:
    said = value if isinstance(value, Mapping) else {}
    return {str(name): each for name, each in said.items() if type(each) in {int, float}}


def _rows(kind: Any, value: object) -> tuple[Any, ...]:
    listed: Sequence[Any] = value if isinstance(value, list) else ()
    if kind is str:
        return tuple(each for each in listed if isinstance(each, str))
    nothing: frozenset[str] = frozenset()
    return tuple(
        kind(**_claims(kind, each, leaving=nothing)) for each in listed if isinstance(each, Mapping)
    )


def _is_like(value: object, default: object) -> bool:
    """Whether a value is of the type that a field's default shows; None stands for a number."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, float):
        return isinstance(value, (int, float))
    return isinstance(value, int if default is None else type(default))


__all__ = [
    "COUNTS",
    "ROWS",
    "CodePiece",
    "CodebaseSearchResult",
    "CommandResult",
    "DeleteFileResult",
    "DirectoryEntry",
    "GrepMatch",
    "GrepSearchResult",
    "ListDirectoryResult",
    "Outcome",
    "ReadFileResult",
    "Result",
    "SearchFilesResult",
    "SearchReplaceResult",
    "WriteFileResult",
    "failed",
    "outcome_of",
]
