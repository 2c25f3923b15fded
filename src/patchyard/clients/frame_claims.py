"""What each frame of a toolbox must hold, as the one table by which frames are checked.

Knows the shapes of `patchyard.toolbox.wire`, and nothing of who waits for them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.domain.codec import is_deeper

MAX_DEPTH = 16  # of a result, and of every other value in a frame
LONGEST_ID = 128  # characters, as the toolbox takes them
LONGEST_WORD = 4096  # characters of what a toolbox says of itself
MOST_NUMBER = 2**31 - 1  # a process's
MOST_PORT = 2**16 - 1


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a frame."""

    fits: Callable[[Any], bool]
    sample: str  # one that fits, as JSON
    is_needed: bool = True  # False: an older toolbox, or a refusal, leaves it out


def _whole(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most  # true is no 1


def _text(longest: int | None = None) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and (longest is None or len(value) <= longest)


def _object(value: Any) -> bool:
    return isinstance(value, dict) and not is_deeper(value, MAX_DEPTH)


def _ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_CALL = Field(fits=_text(), sample='"c"')
FRAMES: Mapping[str, Mapping[str, Field]] = {
    "error": {"message": Field(fits=_text(), sample='"no"', is_needed=False)},
    "hello": {
        # any whole number: another one than ours is told apart from nonsense
        "protocol": Field(fits=lambda value: type(value) is int, sample="1"),
        "pid": Field(fits=_whole(1, MOST_NUMBER), sample="1", is_needed=False),
        "python": Field(fits=_text(LONGEST_WORD), sample='"3.11.2"', is_needed=False),
        "shell": Field(fits=_text(LONGEST_WORD), sample='"/bin/sh"', is_needed=False),
        "calls": Field(fits=_ids, sample="[]", is_needed=False),
        "walls": Field(fits=_object, sample="{}", is_needed=False),
    },
    "listening": {"port": Field(fits=_whole(1, MOST_PORT), sample="8080")},
    "output": {
        "call_id": _CALL,
        "stream": Field(fits=lambda value: value in ("stdout", "stderr"), sample='"stdout"'),
        "text": Field(fits=_text(), sample='"x"'),
    },
    "result": {"call_id": _CALL, "result": Field(fits=_object, sample='{"success": true}')},
    "unknown": {"call_id": _CALL},
}
"""Fields by what a frame says. Whatever says something else is passed over."""


def checked(message: Mapping[str, Any]) -> str:
    """Return what a frame says; empty for a frame of no kind. Raises ValueError for a misfit."""
    say = message.get("say")
    if not isinstance(say, str) or say not in FRAMES:
        return ""
    for name, field in FRAMES[say].items():
        value = message.get(name)
        if not field.fits(value) and (field.is_needed or name in message):
            raise ValueError(f"`{name}` of a frame that says {say} cannot be that")
    return say


__all__ = [
    "FRAMES",
    "LONGEST_ID",
    "LONGEST_WORD",
    "MAX_DEPTH",
    "MOST_NUMBER",
    "MOST_PORT",
    "Field",
    "checked",
]
