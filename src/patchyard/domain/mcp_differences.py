"""What differs between a tool as it was held and as its server lists it now, line by line. Pure."""

import json
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from textwrap import TextWrapper
from typing import Any

from patchyard.domain.mcp import changes, texts_by_name
from patchyard.toolbox.wire import loaded

LINE_CHARS = 76  # of a description, so that a word that differs shows few others
SHOWN_LINES = 40  # of one tool
LEFT = "removed"


def differences(old: Sequence[Any], new: Sequence[Any]) -> Mapping[str, Sequence[str]]:
    """Return, for each tool that was changed or added, the lines of a unified diff."""
    before, after = texts_by_name(old), texts_by_name(new)
    return {
        name: _difference(before.get(name, ""), after[name])
        for name, how in changes(old, new).items()
        if how != LEFT
    }


def _difference(old: str, new: str) -> Sequence[str]:
    found = list(unified_diff(_lines(old), _lines(new), n=1, lineterm=""))[2:]  # without the names
    more = len(found) - SHOWN_LINES
    return [*found[:SHOWN_LINES], f"… {more} more lines"] if more > 1 else found


def _lines(text: str) -> list[str]:
    """Return what describes a tool, its description in lines of their own."""
    try:
        body = loaded(text) if text else {}
    except ValueError:
        return [text]
    if not isinstance(body, dict):
        return [text]
    description = body.pop("description", "")
    parts = str(description).split("\n") if description else []
    body.pop("name", None)
    schema = json.dumps(body, ensure_ascii=False, indent=2).split("\n") if body else []
    return [*(line for part in parts for line in _wrapped(part)), *schema]


def _wrapped(text: str) -> Sequence[str]:
    """Return pieces that are the text when put together: nothing that differs is lost."""
    writer = TextWrapper(
        LINE_CHARS, replace_whitespace=False, drop_whitespace=False, expand_tabs=False
    )
    return writer.wrap(text) or [""]


__all__ = ["LEFT", "LINE_CHARS", "SHOWN_LINES", "differences"]
