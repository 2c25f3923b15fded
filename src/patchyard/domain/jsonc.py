"""JSON with comments and trailing commas, as editors write it. Pure."""

import json
import re
from typing import Any

from patchyard.domain.errors import UsageError

_PARTS = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\\n])*")   # kept as it is
      | //[^\r\n]*               # some readers end a line at either
      | /\*.*?\*/
      | ,(?=(?:\s|//[^\r\n]*|(?>/\*.*?\*/))*[}\]])  # a comma that nothing follows
    """,
    re.VERBOSE | re.DOTALL,
)


def parse_jsonc(text: str, *, name: str) -> Any:
    """Return the data in `text`. Raises UsageError with name, line and column."""
    try:
        return json.loads(_PARTS.sub(_blank, text), object_pairs_hook=_single)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{name}:{error.lineno}:{error.colno}: {error.msg}", hint="it must be JSON"
        ) from error
    except (RecursionError, _DoubleKeyError) as error:
        raise UsageError(f"{name}: {error}", hint="it must be JSON") from error


class _DoubleKeyError(ValueError):
    """A key stands twice in one object."""


def _blank(found: re.Match[str]) -> str:
    """Put blanks in the place of what is no JSON, so that lines and columns stay."""
    return found["text"] or re.sub(r"[^\n]", " ", found[0])


def _single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise _DoubleKeyError(f"the key {twice!r} stands twice")
    return made


__all__ = ["parse_jsonc"]
