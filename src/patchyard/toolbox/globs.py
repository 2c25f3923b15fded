"""File patterns: `*`, `?`, `[...]`, `{a,b}` and `**`, as ripgrep and git read them."""

from __future__ import annotations

import re

from .answers import Refusal

MAGIC = frozenset("*?[{")


def is_glob(text: str) -> bool:
    """Whether `text` is a pattern rather than a name."""
    return not MAGIC.isdisjoint(text)


class Glob:
    """One pattern. Without a slash it is for names anywhere, with one for paths from the top.

    A folder that matches stands for all in it. Raises Refusal for a pattern that means nothing.
    """

    def __init__(self, pattern: str) -> None:
        plain = pattern.lstrip("/").rstrip("/")
        plain = plain[2:] if plain.startswith("./") else plain
        self._is_for_names = "/" not in plain and not pattern.startswith("/")
        try:
            self._match = re.compile(_translate(plain), re.DOTALL).fullmatch
        except (re.error, OverflowError, RecursionError) as error:
            raise Refusal("INVALID_PATTERN", "invalid pattern %s: %s" % (pattern, error)) from None

    def matches(self, path: str) -> bool:
        """Whether `path`, relative to the workspace, or a folder it lies in, fits."""
        parts = path.split("/")
        if self._is_for_names:
            return any(self._match(part) for part in parts)
        return any(self._match("/".join(parts[:end])) for end in range(1, len(parts) + 1))


def split_patterns(text: str) -> list[Glob]:
    """Return the patterns of a list with commas; commas inside braces do not part."""
    pieces, depth = [""], 0
    for character in text:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return [Glob(piece.strip()) for piece in pieces if piece.strip()]


def _translate(pattern: str) -> str:
    out: list[str] = []
    position, depth = 0, 0
    while position < len(pattern):
        step, piece, depth = _piece(pattern, position, depth)
        out.append(piece)
        position += step
    return "".join(out) + ")" * depth


def _piece(pattern: str, at: int, depth: int) -> tuple[int, str, int]:
    """Return how many characters were read, the expression for them, and the open braces."""
    character = pattern[at]
    if pattern.startswith("**/", at):
        return 3, "(?:[^/]+/)*", depth
    if pattern.startswith("**", at):
        return 2, ".*", depth
    if character == "[":
        return _class(pattern, at, depth)
    if character == "{":
        return 1, "(?:", depth + 1
    if depth and character in ",}":
        return 1, "|" if character == "," else ")", depth - (character == "}")
    simple = {"*": "[^/]*", "?": "[^/]"}
    return 1, simple.get(character) or re.escape(character), depth


def _class(pattern: str, at: int, depth: int) -> tuple[int, str, int]:
    end = pattern.find("]", at + 2)
    if end < 0:
        return 1, re.escape("["), depth
    inside = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
    if inside[0] in "!^":
        inside = "^/" + inside[1:]
    return end + 1 - at, "[%s]" % inside, depth


__all__ = ["MAGIC", "Glob", "is_glob", "split_patterns"]
