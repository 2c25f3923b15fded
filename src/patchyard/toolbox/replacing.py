"""`search_replace`: one exact text becomes another; a text not found gets an explanation."""

from __future__ import annotations

import re

from . import arguments
from .answers import Refusal, success
from .files import read_text, replace
from .linediff import count_changes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .room import Room

SHOWN_LINES = 12
SEARCHED_LINES = 20_000
SHOWN_CHARS = 200
NUMBERED = re.compile(r"\s*\d+\s*(?:[|:\u2192\t]|  )[ \t]?")
LIKE_ENOUGH = 0.5


def search_replace(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Replace `old_string`, which must occur exactly once, by `new_string`."""
    room.require_writable()
    old, new = arguments.data(args, "old_string"), arguments.data(args, "new_string")
    if not old:
        raise Refusal("EMPTY_OLD_STRING", "`old_string` is empty; use write_file for a new file")
    if old == new:
        raise Refusal("IDENTICAL_STRINGS", "`old_string` and `new_string` are the same")
    with room.workspace.locate(arguments.text(args, "path")) as place:
        content = read_text(place)
        shown = place.relative
        found = _occurrences(content, old)
        if not found:
            raise _not_found(content, old, new, shown)
        if len(found) > 1:
            raise _not_unique(content, found, shown)
        changed = content[: found[0]] + new + content[found[0] + len(old) :]
        replace(place, changed)
    added, removed = count_changes(content, changed)
    return success(
        "changed %s: +%d -%d lines" % (shown, added, removed),
        is_new_file=False,
        lines_added=added,
        lines_removed=removed,
        occurrences=1,
        old_length=len(old.decode("utf-8", "surrogateescape")),
        new_length=len(new.decode("utf-8", "surrogateescape")),
        path=shown,
        paths=[shown],
    )


def _occurrences(content: bytes, wanted: bytes) -> list[int]:
    """Return where `wanted` stands, overlapping places too, up to 1,000."""
    found: list[int] = []
    at = content.find(wanted)
    while at >= 0 and len(found) < 1000:
        found.append(at)
        at = content.find(wanted, at + 1)
    return found


def _not_unique(content: bytes, found: list[int], shown: str) -> Refusal:
    lines = []
    line, before = 1, 0
    for at in found:
        line, before = line + content.count(b"\n", before, at), at
        lines.append(line)
    listed = ", ".join(map(str, lines[:10]))
    message = "`old_string` occurs %d times in %s (lines %s); add lines around it"
    return Refusal(
        "TEXT_NOT_UNIQUE",
        message % (len(found), shown, listed),
        occurrences=len(found),
        lines=lines[:100],
    )


def _not_found(content: bytes, old: bytes, new: bytes, shown: str) -> Refusal:
    lines = content.decode("utf-8", "surrogateescape").split("\n")[:SEARCHED_LINES]
    wanted = old.decode("utf-8", "surrogateescape").split("\n")
    start, cause = _explain(content, old, lines, wanted)
    if not cause and new and content.count(new) == 1:
        cause = "; the new text is there already"
    nearest: list[str] = []
    if start is not None:
        end = min(len(lines), start + min(len(wanted), SHOWN_LINES))
        nearest = ["%d: %s" % (n + 1, lines[n][:SHOWN_CHARS]) for n in range(start, end)]
    where = "; nearest is line %d" % (start + 1) if start is not None else ""
    message = "`old_string` does not occur in %s%s%s" % (shown, cause, where)
    return Refusal("TEXT_NOT_FOUND", message, occurrences=0, nearest=nearest)


def _explain(
    content: bytes, old: bytes, lines: list[str], wanted: list[str]
) -> tuple[int | None, str]:
    """Return the nearest line's index and the likely cause."""
    start: int | None = None
    if b"\r\n" in content and old.replace(b"\n", b"\r\n") in content:
        start = content.count(b"\n", 0, content.find(old.replace(b"\n", b"\r\n")))
        return start, "; the file's lines end with CRLF, so write \\r\\n between the lines"
    bare = [NUMBERED.sub("", line, count=1) for line in wanted]
    if all(NUMBERED.match(line) for line in wanted if line.strip()):
        start = _find(lines, bare, lambda line: " ".join(line.split()))
        if start is not None:
            return start, "; it has line numbers pasted in, leave them out"
    start = _find(lines, wanted, lambda line: "".join(line.split()))
    if start is not None:
        return start, "; only white space differs"
    return _nearest(lines, wanted), ""


def _find(lines: list[str], wanted: list[str], plain: Any) -> int | None:
    """Return where `wanted` stands in `lines` when both are made plain."""
    needle = [plain(line) for line in wanted]
    while needle and not needle[0]:
        needle.pop(0)
    while needle and not needle[-1]:
        needle.pop()
    if not needle:
        return None
    hay = [plain(line) for line in lines]
    last = len(needle) - 1
    for at in range(len(hay) - last):
        is_same = hay[at] == needle[0] and hay[at : at + len(needle)] == needle
        if is_same or (hay[at].endswith(needle[0]) and _partly(hay, needle, at)):
            return at
    return None


def _partly(hay: list[str], needle: list[str], at: int) -> bool:
    """Whether `needle` stands at `at` with its first and last line cut short."""
    last = len(needle) - 1
    if not last:
        return True
    middle = hay[at + 1 : at + last] == needle[1:last]
    return middle and hay[at + last].startswith(needle[last])


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    """Return the index where the text most like `wanted` begins."""
    import difflib  # noqa: PLC0415 - only a failure needs it

    longest = max(range(len(wanted)), key=lambda n: len(wanted[n].strip()))
    matcher = difflib.SequenceMatcher(None, "", wanted[longest].strip()[:SHOWN_CHARS])
    best, best_ratio = None, LIKE_ENOUGH
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:SHOWN_CHARS])
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = number, ratio
    return None if best is None else max(0, best - longest)


__all__ = [
    "LIKE_ENOUGH",
    "NUMBERED",
    "SEARCHED_LINES",
    "SHOWN_CHARS",
    "SHOWN_LINES",
    "search_replace",
]
