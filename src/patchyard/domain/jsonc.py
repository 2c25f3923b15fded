"""JSON with comments and trailing commas, as editors write it. Pure; time grows with the text."""

import json
import re
from typing import Any

from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault, Place
from patchyard.toolbox.wire import loaded

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
HALF_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")  # the one way into a text that was UTF-8
HALF = re.compile("[\ud800-\udfff]")
_PASSED = frozenset({"line", "block", "blank"})


def parse_jsonc(text: str, *, name: str) -> Any:
    """Return the data in `text`. Raises UsageError with name, line and column."""
    try:
        found = loaded(_plain(text), object_pairs_hook=_single)
        if HALF_ESCAPED.search(text):
            _require_whole(found, ())
    except Fault as fault:
        raise UsageError(f"{name}: {fault.message}", hint=fault.hint) from fault
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{name}:{error.lineno}:{error.colno}: {error.msg}", hint="it must be JSON"
        ) from error
    except (RecursionError, _DoubleKeyError) as error:
        raise UsageError(f"{name}: {error}", hint="it must be JSON") from error
    except ValueError as error:
        message = f"{name}: a number in it has thousands of digits"
        raise UsageError(message, hint="write a smaller one") from error
    return found


class _DoubleKeyError(ValueError):
    """A key stands twice in one object."""


def _require_whole(value: Any, place: Place) -> None:
    """Raise Fault for text that no file, no variable and no address can hold."""
    if isinstance(value, str) and HALF.search(value):
        raise Fault(place, "holds half of a character", hint="a `\\ud8…` needs its other half")
    if isinstance(value, dict):
        for key, item in value.items():
            _require_whole(key, place)
            _require_whole(item, (*place, key))
    if isinstance(value, list):
        for number, item in enumerate(value):
            _require_whole(item, (*place, number))


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


__all__ = ["HALF", "HALF_ESCAPED", "parse_jsonc"]
