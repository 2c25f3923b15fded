"""What a far side says of its tree, checked before anything at home is touched by it. Pure.

It may be hostile: a claim that no honest tree could give rise to ends in EnvironmentBroken.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath
from typing import Any

from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.sizes import shown_bytes
from patchyard.toolbox.footing import STAGED
from patchyard.toolbox.trees import (
    FILE,
    FOLDER,
    LATEST_NS,
    LINK,
    MAX_DEPTH,
    MAX_PATH_BYTES,
    MODE,
    Entry,
    Record,
)

LARGEST_FILE = 2**63 - 1  # bytes, of any file system
LONGEST_NAME = 255
LONGEST_TARGET = 4095
LONGEST_PLACE = 1024  # of a folder or a socket there
DIGEST_CHARS = 40
KEPT_WORDS = 100  # of what a far side says it left out


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much one exchange may bring."""

    entries: int = 1_000_000  # changed or gone, in all
    file_bytes: int = 8 * 1024**3  # of one file
    bytes: int = 32 * 1024**3  # of all together
    path_chars: int = 256 * 1024**2  # of all paths together


@dataclass(frozen=True, kw_only=True)
class FarPlace:
    """What a person can do where a far side cannot keep its copy of the workspace."""

    full: str  # the cure where it has no room for it
    other: str  # of any other trouble


ON_HOST = FarPlace(
    full="free some space on that host's disk, where ~/.cache/patchyard lies, then resume",
    other="look at that host's disk and log; a new environment begins with a new copy",
)
IN_MACHINE = FarPlace(
    full="the virtual machine's memory is full, where the workspace lies: allow it more"
    " (`--limit memory=8G`), or leave large files out",
    other="end the plan's environment: a new virtual machine begins with a new copy",
)


def bounds_of(file_bytes: object) -> Bounds:
    """Return the usual bounds, with the limit of one file where there is one."""
    return Bounds() if file_bytes is None else Bounds(file_bytes=int(str(file_bytes)))


@dataclass(frozen=True, kw_only=True)
class FarLook:
    """One look of the far side at its replica."""

    number: int
    entries: Mapping[str, Entry]
    gone: Sequence[str]
    left_out: Sequence[tuple[str, str]]  # what stays there, and why
    is_busy: bool  # something that was started there still runs
    beyond: Collection[str] = ()  # files that are too large to come; in no `entries`


def lying(what: str) -> EnvironmentBroken:
    """Return the error for a claim that cannot be."""
    return EnvironmentBroken(
        f"the far side of the workspace claims what cannot be: {what}",
        hint="end the plan's environment, and look at the host or the machine that it ran in",
    )


def listed(answer: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list of an answer. Raises EnvironmentBroken where it is none."""
    part = answer.get(name)
    if not isinstance(part, list):
        raise lying("a look of another shape")
    return part


def chars_of(rows: list[Any]) -> int:
    """Return how much text there is in a page."""
    texts = (each for row in rows for each in (row if isinstance(row, list) else (row,)))
    return sum(len(each) for each in texts if isinstance(each, str))


def texts_of(values: object) -> set[str]:
    """Return the texts of what should be a list of them."""
    return {each for each in values if isinstance(each, str)} if isinstance(values, list) else set()


def are_alike(one: Entry, other: Entry) -> bool:
    """Whether both are the same but for their times."""
    return (one.kind, one.mode, one.mark) == (other.kind, other.mode, other.mark)


def checked_start(made: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return where a toolbox is said to be: `boot`, `root`, `socket`, `workspace`.

    It is journalled with the environment. Raises EnvironmentBroken.
    """
    found = {name: made.get(name) for name in ("boot", "root", "socket", "workspace")}
    for name in ("boot", "socket", "workspace"):
        text = found[name]
        if not isinstance(text, str) or not 0 < len(text) <= LONGEST_PLACE or "\0" in text:
            raise lying(f"{name} of its toolbox")
    root = found["root"]
    keys = ("pid", "started")
    if not isinstance(root, dict) or [type(root.get(key)) for key in keys] != [int, int]:
        raise lying("root of its toolbox")
    place = str(found["workspace"])
    if place != normpath(place) or not place.startswith("/") or place.strip("/") == "":
        raise lying("workspace of its toolbox")
    return {**found, "root": {key: root[key] for key in keys}}


def checked_rows(rows: object, bounds: Bounds) -> dict[str, Entry]:
    """Return rows `[path, kind, mode, mtime, size, mark]` as entries. Raises EnvironmentBroken."""
    if not isinstance(rows, list) or len(rows) > bounds.entries:
        raise lying("more entries than one exchange may bring")
    found: dict[str, Entry] = {}
    for row in rows:
        if not isinstance(row, list) or len(row) != 6:
            raise lying("an entry of another shape")
        path = checked_path(row[0])
        if path in found:
            raise lying(f"{path!r} twice")
        found[path] = _entry(path, row[1:])
    return found


def beyond_bounds(entries: Mapping[str, Entry], bounds: Bounds) -> dict[str, str]:
    """Return the files that are too large to come, with the reason: the largest ones.

    An honest side has such files: a hole of any length is made in no time.
    """
    beyond: dict[str, str] = {}
    total = 0
    for path, entry in sorted(entries.items(), key=lambda each: (each[1].size, each[0])):
        total += entry.size
        if entry.size > bounds.file_bytes:
            beyond[path] = f"larger than {shown_bytes(bounds.file_bytes)}"
        elif total > bounds.bytes:
            beyond[path] = f"more than {shown_bytes(bounds.bytes)} were written"
    return beyond


def checked_path(path: object) -> str:
    """Return a path of the tree. Raises EnvironmentBroken for what leads elsewhere."""
    if not isinstance(path, str):
        raise lying("a path that is no text")
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise lying("a path that no system can have") from None
    names = raw.split(b"/")
    bad = {b"", b".", b".."}
    if raw.decode("utf-8", "surrogateescape") != path:
        raise lying("a path in a second spelling")
    if len(raw) > MAX_PATH_BYTES or len(names) > MAX_DEPTH + 1 or b"\0" in raw:
        raise lying("a path that no system can have")
    if any(name in bad or len(name) > LONGEST_NAME or name.startswith(STAGED) for name in names):
        raise lying(f"the path {path[:200]!r}")
    return path


def _entry(path: str, fields: Sequence[Any]) -> Entry:
    kind, mode, mtime, size, mark = fields
    numbers = (mode, mtime, size)
    if any(type(number) is not int for number in numbers) or not isinstance(mark, str):
        raise lying(f"an entry of another shape at {path!r}")
    limits = {FILE: LARGEST_FILE, FOLDER: 0, LINK: 0}
    if kind not in limits:
        raise lying(f"{path!r} is neither file, folder nor link")
    if not 0 <= mode <= MODE or abs(mtime) > LATEST_NS or not 0 <= size <= limits[kind]:
        raise lying(f"mode, time or size of {path!r}")
    if not _is_mark(kind, mark):
        raise lying(f"the content of {path!r}")
    return Entry(kind, mode, mtime, size, mark)


def _is_mark(kind: str, mark: str) -> bool:
    if kind == FILE:
        return len(mark) == DIGEST_CHARS and all(char in "0123456789abcdef" for char in mark)
    if kind == FOLDER:
        return not mark
    try:
        raw = mark.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return 0 < len(raw) <= LONGEST_TARGET and b"\0" not in raw


def checked_gone(paths: object, bounds: Bounds) -> list[str]:
    """Return the paths that are said to be gone. Raises EnvironmentBroken."""
    if not isinstance(paths, list) or len(paths) > bounds.entries:
        raise lying("more entries than one exchange may bring")
    return [checked_path(path) for path in paths]


def checked_left_out(pairs: object) -> list[tuple[str, str]]:
    """Return what is said to stay there, shortened; words for people, nothing else."""
    listed = pairs[:KEPT_WORDS] if isinstance(pairs, list) else []
    return [
        (pair[0][:500], pair[1][:200])
        for pair in listed
        if isinstance(pair, list) and [type(each) for each in pair] == [str, str]
    ]


def require_folders(look: FarLook, agreed: Mapping[str, Record]) -> None:
    """Raise EnvironmentBroken where something is said to lie below what is no folder."""
    gone, paths = set(look.gone), sorted(look.entries)
    closed = [path for path, entry in look.entries.items() if entry.kind != FOLDER]
    closed += [
        path
        for path, record in agreed.items()
        if record.entry.kind != FOLDER and path not in look.entries and path not in gone
    ]
    for path in closed:  # and not each entry's way up: who claims may choose how long that is
        at = bisect_left(paths, f"{path}/")
        if at < len(paths) and paths[at].startswith(f"{path}/"):
            raise lying(f"{paths[at]!r} lies below what is no folder")


__all__ = [
    "IN_MACHINE",
    "KEPT_WORDS",
    "LONGEST_PLACE",
    "ON_HOST",
    "Bounds",
    "FarLook",
    "FarPlace",
    "are_alike",
    "beyond_bounds",
    "bounds_of",
    "chars_of",
    "checked_gone",
    "checked_left_out",
    "checked_path",
    "checked_rows",
    "checked_start",
    "listed",
    "lying",
    "require_folders",
    "texts_of",
]
