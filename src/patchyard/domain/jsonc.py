"""JSON with comments and trailing commas, as editors write it. Pure; time grows with the text."""

import json
import re
from typing import Any

from patchyard.domain.errors import UsageError

_PARTS = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\\n])*+"?)      # kept as it is, unclosed too
      | (?P<line>//[^\r\n]*+)                # some readers end a line at either
      | (?P<block>/\*(?:[^*]|\*(?!/))*+\*/)
      | (?P<open>/\*)                        # with no end: kept, and what follows with it
      | (?P<blank>\s++)
      | (?P<other>[^\s"/,\]}]++|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PASSED = frozenset({"line", "block", "blank"})


def parse_jsonc(text: str, *, name: str) -> Any:
    """Return the data in `text`. Raises UsageError with name, line and column."""
    try:
        return json.loads(_plain(text), object_pairs_hook=_single)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{name}:{error.lineno}:{error.colno}: {error.msg}", hint="it must be JSON"
        ) from error
    except (RecursionError, ValueError) as error:  # a key twice, or a number without end
        raise UsageError(f"{name}: {error}", hint="it must be JSON") from error


class _DoubleKeyError(ValueError):
    """A key stands twice in one object."""


def _plain(text: str) -> str:
    """Return `text` with blanks for what is no JSON, so that lines and columns stay."""
    parts: list[str] = []
    comma: int | None = None  # the part that is one, while nothing but what is passed follows
    for found in _PARTS.finditer(text):
        kind, part = found.lastgroup, found[0]
        if kind == "open":
            parts.append(text[found.start() :])
            break
        if kind in ("line", "block"):
            part = re.sub(r"[^\n]", " ", part)
        if comma is not None and part in ("}", "]"):
            parts[comma] = " "
        if kind not in _PASSED:
            comma = len(parts) if part == "," else None
        parts.append(part)
    return "".join(parts)


def _single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise _DoubleKeyError(f"the key {key!r} stands twice")
        made[key] = value
    return made


__all__ = ["parse_jsonc"]
