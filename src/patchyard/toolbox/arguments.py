"""Reads an operation's arguments; what does not fit is refused as VALIDATION_ERROR."""

from __future__ import annotations

from .answers import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def text(args: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return the text `name`. A default makes it optional."""
    value = args.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise _wrong(name, "a text")
    return value


def data(args: dict[str, Any], name: str) -> bytes:
    """Return the text `name` as the bytes it stands for."""
    try:
        return text(args, name).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise _wrong(name, "a text that can be written as bytes") from None


def whole(args: dict[str, Any], name: str) -> int | None:
    """Return the whole number `name`, None when it is not given."""
    value = args.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise _wrong(name, "a whole number")
    return value


def number(args: dict[str, Any], name: str, default: float) -> float:
    """Return the number `name`; it must be above 0."""
    value = args.get(name)
    if value is None:
        return default
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1e9:
        raise _wrong(name, "a number above 0")
    return float(value)


def flag(args: dict[str, Any], name: str, *, default: bool = False) -> bool:
    """Return the truth value `name`."""
    value = args.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _wrong(name, "true or false")
    return value


def _wrong(name: str, wanted: str) -> Refusal:
    return Refusal("VALIDATION_ERROR", "argument %r must be %s" % (name, wanted))


__all__ = ["data", "flag", "number", "text", "whole"]
