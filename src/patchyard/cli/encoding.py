"""What a command prints as JSON: values that every reader takes, written by pieces."""

import base64
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from patchyard.domain.views import Mapped

NO_UTF8 = re.compile(  # bytes kept by surrogateescape, and no other surrogate
    r"(?s)(?=.*[\udc80-\udcff])[^\ud800-\udc7f\udd00-\udfff]*"
)
PIECE_CHARS = 64 * 1024


def portable(value: Any) -> Any:
    """Return JSON values that every reader takes: no lone surrogates, no NaN, no infinity.

    A path that is not UTF-8 becomes `path_b64`.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: portable(item) for key, item in (_named(*pair) for pair in value.items())}
    if isinstance(value, (list, tuple, Mapped)):
        return [portable(item) for item in value]
    return value


def _named(key: str, item: Any) -> tuple[str, Any]:
    if key in {"path", "old_path"} and isinstance(item, str) and NO_UTF8.fullmatch(item):
        return f"{key}_b64", base64.b64encode(os.fsencode(item)).decode()
    return key, item


def encoded(value: Any, *, indent: int | None) -> Iterator[str]:
    """Yield `portable(value)` as JSON, as `json.dumps` writes it, by pieces of some 64 KB.

    Of views in its mappings one item is made at a time.
    """
    waiting, size = list[str](), 0
    for text in _encoded(value, "\n", indent):
        waiting.append(text)
        size += len(text)
        if size >= PIECE_CHARS:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting)


def _encoded(value: Any, line: str, indent: int | None) -> Iterator[str]:
    """Yield a value; `line` begins a line at its own depth."""
    deeper = line + " " * (indent or 0)
    between, colon = (", ", ": ") if indent is None else ("," + deeper, ": ")
    first, last = ("", "") if indent is None else (deeper, line)
    if isinstance(value, Mapping) and value:
        for number, pair in enumerate(value.items()):
            key, item = _named(*pair)
            yield (between if number else "{" + first) + json.dumps(key) + colon
            yield from _encoded(item, deeper, indent)
        yield last + "}"
    elif isinstance(value, Mapped) and value:
        for number, item in enumerate(value):
            yield between if number else "[" + first
            yield json.dumps(portable(item), indent=indent).replace("\n", deeper)
        yield last + "]"
    else:
        yield json.dumps(portable(value), indent=indent).replace("\n", line)


__all__ = ["encoded", "portable"]
