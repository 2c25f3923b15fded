"""A value that an event carries and that may be large."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Body:
    """A JSON value that may be large: kept inline, or in a blob by its digest."""

    value: Any = None  # inline, when `digest` is None
    digest: str | None = None  # SHA-256 of the blob that holds the encoded value
    size: int = 0  # bytes encoded


__all__ = ["Body"]
