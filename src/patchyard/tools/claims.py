"""Reads a result's fields. What a toolbox answered is a claim, so each one is checked."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.domain.messages import Image

MEDIA_TYPES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
IMAGE_CHARS = 1_500_000  # of base64: a good megabyte
IMAGES_AT_ONCE = 4  # of one result
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def text(data: Mapping[str, Any], key: str) -> str:
    """Return a text field, empty when it is missing or something else."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def number(data: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number, None when it is missing or something else."""
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def flag(data: Mapping[str, Any], key: str) -> bool:
    """Return whether the field is exactly true."""
    return data.get(key) is True


def rows(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return a list of records; entries that are none are left out."""
    value = data.get(key)
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def texts(data: Mapping[str, Any], key: str) -> list[str]:
    """Return a list of texts; entries that are none are left out."""
    value = data.get(key)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def unreadable(data: Mapping[str, Any]) -> list[str]:
    """Return a line that says how much a search had to pass over; none where it read all.

    An older toolbox does not say it.
    """
    count = number(data, "unreadable") or 0
    if count <= 0:
        return []
    what = "1 folder or file was" if count == 1 else f"{count} folders or files were"
    return [f"[{what} closed to this user and passed over]"]


def images(found: Sequence[Mapping[str, Any]], *, named: str) -> tuple[Image, ...]:
    """Return the pictures among records of base64 `data`; `named` is the key of the media type."""
    claimed = (Image(media_type=text(one, named), data=text(one, "data")) for one in found)
    fit = (one for one in claimed if one.media_type in MEDIA_TYPES and len(one.data) <= IMAGE_CHARS)
    return tuple(one for one in fit if _BASE64.fullmatch(one.data))[:IMAGES_AT_ONCE]


__all__ = ["flag", "images", "number", "rows", "text", "texts", "unreadable"]
