"""Patterns that hold below any folder, of which one expression asks many at once."""

import fnmatch
import functools
import re

_PIECES = re.compile(r"\[[^]]+\]|[^*?[]+|.", re.DOTALL)
_STARS = {"*": "[^/]*", "?": "[^/]"}


@functools.lru_cache(maxsize=256)
def anywhere(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return what matches a path where one of `patterns` fits it, or its rest below a folder."""
    either = "|".join(map(fnmatch.translate, patterns))
    return re.compile(rf"(?s:.*/)?(?:{either})")


@functools.lru_cache(maxsize=256)
def named_anywhere(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return the like, of patterns whose stars reach over no folder, but for a closing `/*`."""
    either = "|".join(map(_of_names, patterns))
    return re.compile(rf"(?s:.*/)?(?:{either})\Z")


def _of_names(pattern: str) -> str:
    head = pattern.removesuffix("/*")
    pieces = (_STARS.get(piece) or _literal(piece) for piece in _PIECES.findall(head))
    return "".join(pieces) + ("(?s:/.*)" if head != pattern else "")


def _literal(piece: str) -> str:
    if not piece.startswith("[") or len(piece) == 1:
        return re.escape(piece)
    return f"[^{piece[2:]}" if piece.startswith("[!") else piece


__all__ = ["anywhere", "named_anywhere"]
