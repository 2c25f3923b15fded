"""What is set of the analysis: how many tokens the map of a repository may take."""

from dataclasses import dataclass
from typing import Any

from patchyard.domain.faults import Fault, Place, check_keys

MAP_TOKENS = 2000
MOST_TOKENS = 50_000


@dataclass(frozen=True, kw_only=True)
class MapSettings:
    """One place's say."""

    map_tokens: int = MAP_TOKENS  # 0: no map is made


def map_settings_of(value: Any, place: Place) -> MapSettings:
    """Return what a mapping says. Raises Fault."""
    body = check_keys(value, place, ("map_tokens",))
    tokens = body.get("map_tokens", MAP_TOKENS)
    is_whole = isinstance(tokens, int) and not isinstance(tokens, bool)
    if not is_whole or not 0 <= tokens <= MOST_TOKENS:
        raise Fault((*place, "map_tokens"), f"must be a whole number from 0 to {MOST_TOKENS:,}")
    return MapSettings(map_tokens=tokens)


__all__ = ["MAP_TOKENS", "MOST_TOKENS", "MapSettings", "map_settings_of"]
