"""Reads a result's fields. What a toolbox answered is a claim, so each one is checked."""

from collections.abc import Mapping
from typing import Any


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


__all__ = ["flag", "number", "rows", "text", "texts"]
