"""The lines that a patch of git's adds and takes away, by file. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))

Lines = Mapping[int, str]  # text by number, 1 for the first


@dataclass(frozen=True, kw_only=True)
class PatchLines:
    """What a patch does to text files."""

    added: Mapping[str, Lines] = field(default_factory=dict)  # by new path, numbers of the new
    removed: Mapping[str, Lines] = field(default_factory=dict)  # by old path, numbers of the old


def patch_lines(patch: bytes) -> PatchLines:
    """Return the lines that `patch` adds and removes."""
    added: dict[str, dict[int, str]] = {}
    removed: dict[str, dict[int, str]] = {}
    old = new = ""
    lines = iter(patch.split(b"\n"))
    for line in lines:
        if line.startswith(b"diff --git "):
            old = new = ""
        elif line.startswith(b"--- "):
            old = _path(line[4:], b"a/")
        elif line.startswith(b"+++ "):
            new = _path(line[4:], b"b/")
        elif hunk := _HUNK.match(line):
            for sign, number, text in _inside(lines, hunk):
                known, path = (added, new) if sign == b"+" else (removed, old)
                known.setdefault(path, {})[number] = text
    return PatchLines(added=added, removed=removed)


def _inside(lines: Iterator[bytes], hunk: re.Match[bytes]) -> Iterator[tuple[bytes, int, str]]:
    """Take the lines of one hunk, as many as its head says, so that none is taken for a head."""
    at, to = int(hunk[1]), int(hunk[3])
    old = 1 if hunk[2] is None else int(hunk[2])
    new = 1 if hunk[4] is None else int(hunk[4])
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:
            return
        sign, text = line[:1], line[1:].decode("utf-8", "replace")
        if sign == b"\\":  # no newline at the end
            continue
        if sign == b"+":
            yield sign, to, text
        elif sign == b"-":
            yield sign, at, text
        if sign != b"-":
            to, new = to + 1, new - 1
        if sign != b"+":
            at, old = at + 1, old - 1


def _path(said: bytes, prefix: bytes) -> str:
    """Return the path of `b/PATH`, which git may have put in quotes; empty for no file."""
    name = said.rstrip(b"\t")
    if name.startswith(b'"') and name.endswith(b'"'):
        name = _ESCAPE.sub(_plain, name[1:-1])
    return name[2:].decode("utf-8", "surrogateescape") if name.startswith(prefix) else ""


def _plain(escape: re.Match[bytes]) -> bytes:
    part = escape[1]
    return bytes([int(part, 8) & 0xFF if len(part) == 3 else _LETTERS.get(part[0], part[0])])


def stretches(lines: Sequence[int]) -> list[tuple[int, int]]:
    """Return runs of lines that follow each other."""
    found: list[tuple[int, int]] = []
    for line in lines:
        if found and found[-1][1] == line - 1:
            found[-1] = (found[-1][0], line)
        else:
            found.append((line, line))
    return found


__all__ = ["Lines", "PatchLines", "patch_lines", "stretches"]
