"""Texts in plain data that somebody wrote: required, optional, in lists."""

from collections.abc import Mapping
from typing import Any

from patchyard.domain.faults import Fault, Place, kind_of


def text_of(body: Mapping[str, Any], key: str, place: Place, *, default: str | None = None) -> str:
    """Return the text under `key`. Raises Fault when it is missing or something else."""
    if key not in body:
        if default is None:
            raise Fault(place, f"{key!r} is missing")
        return default
    if not isinstance(body[key], str):
        raise Fault(
            (*place, key), f"must be text, not {kind_of(body[key])}", hint="put it in quotes"
        )
    return str(body[key])


def texts_of(body: Mapping[str, Any], key: str, place: Place = ()) -> tuple[str, ...] | None:
    """Return a list of texts, None when nothing is said; one text counts as a list of one."""
    if key not in body:
        return None
    value = body[key]
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise Fault((*place, key), f"must be a list of texts, not {kind_of(value)}")
    for number, item in enumerate(listed):
        if not isinstance(item, str):
            raise Fault((*place, key, number), f"must be text, not {kind_of(item)}")
    return tuple(listed)


__all__ = ["text_of", "texts_of"]
