"""How many plans may run at once, as settings say it."""

from collections.abc import Mapping
from typing import Any

from patchyard.domain.faults import Fault, Place, check_keys, kind_of
from patchyard.domain.queue import Limits

KEYS = ("per_project", "per_model", "projects", "models")


def slots_of(value: Any, place: Place) -> Limits:
    """Return the limits that a mapping says. Raises Fault."""
    body = check_keys(value, place, KEYS)
    said: dict[str, Any] = {
        key: _whole(body[key], (*place, key)) for key in KEYS[:2] if body.get(key) is not None
    }
    said |= {key: _named(body[key], (*place, key)) for key in KEYS[2:] if key in body}
    return Limits(**said)


def _named(value: Any, place: Place) -> Mapping[str, int]:
    if not isinstance(value, Mapping):
        raise Fault(place, f"must be a mapping of names, not {kind_of(value)}")
    return {str(name): _whole(item, (*place, str(name))) for name, item in value.items()}


def _whole(value: Any, place: Place) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Fault(place, "must be a whole number, 1 or more")
    return value


__all__ = ["KEYS", "slots_of"]
