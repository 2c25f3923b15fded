"""Limits that plans share, as settings say them: `day_usd`, `project_tokens`. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.domain.booking import KEYS, UNITS, Account, Bound, accounts
from patchyard.domain.budget import MEASURES, Ceiling
from patchyard.domain.durations import seconds_of
from patchyard.domain.faults import Fault, Place, check_keys

PREFIXES = ("total", "day", "project", "project_day")
PROJECT = "project"  # begins the keys of a project's own
MEASURE_OF: Mapping[str, str] = {key: measure for measure, key in KEYS.items()}
BUDGET_KEYS = tuple(f"{prefix}_{key}" for prefix in PREFIXES for key in MEASURE_OF)

Budget = Mapping[str, float]  # by key; money in USD, time in seconds


def budget_of(value: Any, place: Place, *, keys: Sequence[str] = BUDGET_KEYS) -> Budget:
    """Return shared limits from a mapping. Raises Fault."""
    body = check_keys(value, place, keys)
    return {key: _limit(key, item, (*place, key)) for key, item in body.items()}


def _limit(key: str, value: Any, place: Place) -> float:
    if key.endswith("_time"):
        return seconds_of(value, place)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf"):
        raise Fault(place, "must be a number, 0 or more")
    if not key.endswith("_usd") and value != int(value):
        raise Fault(place, "must be a whole number, 0 or more")
    return float(value)


def shown_limit(key: str, value: float) -> float:
    """Return a limit as people write it: what is counted in wholes has no point."""
    return value if key.endswith(("_usd", "_time")) else int(value)


def bounds(layers: Sequence[Budget], project: str, day: str) -> Sequence[Bound]:
    """Return the bounds of all accounts of `project` on `day`; the first layer that says it wins.

    Accounts without any limit are left out.
    """
    said: dict[str, float] = {}
    for layer in layers:
        said = {**layer, **said}
    found = [Bound(account=one, ceiling=_ceiling(said, one)) for one in accounts(project, day)]
    return [bound for bound in found if bound.ceiling != Ceiling()]


def _ceiling(said: Budget, account: Account) -> Ceiling:
    limits = {measure: said.get(f"{account.prefix}_{KEYS[measure]}") for measure in MEASURES}
    return Ceiling(
        **{
            measure: None if limit is None else round(limit * UNITS[measure][1])
            for measure, limit in limits.items()
        }
    )


__all__ = ["BUDGET_KEYS", "PROJECT", "Budget", "bounds", "budget_of", "shown_limit"]
