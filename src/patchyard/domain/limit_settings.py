"""A plan's limits as people write them, in settings and in policies of roles."""

from dataclasses import dataclass, replace
from typing import Any

from patchyard.domain.budget import PlanLimits
from patchyard.domain.durations import duration, seconds_of
from patchyard.domain.faults import Fault, Place, check_keys

WHOLE_LIMITS = ("max_calls", "max_steps", "max_tokens", "rounds")
LIMIT_KEYS = ("budget_usd", "max_calls", "max_steps", "max_tokens", "rounds", "timeout")
BOUNDS = {  # fields of PlanLimits by the key that says them; `rounds` is none of them
    "budget_usd": "usd",
    "max_calls": "calls",
    "max_steps": "steps",
    "max_tokens": "tokens",
    "timeout": "seconds",
}


@dataclass(frozen=True, kw_only=True)
class LimitSettings:
    """Limits as settings say them; None is "not said"."""

    budget_usd: float | None = None
    max_tokens: int | None = None
    max_steps: int | None = None
    max_calls: int | None = None  # of tools
    timeout: float | None = None  # seconds
    rounds: int | None = None


def limits_of(value: Any, place: Place) -> LimitSettings:
    """Return limits from a mapping. Raises Fault."""
    body = check_keys(value, place, LIMIT_KEYS)
    whole = {key: body[key] for key in WHOLE_LIMITS if key in body}
    for key, item in whole.items():
        if isinstance(item, bool) or not isinstance(item, int) or item < 0:
            raise Fault((*place, key), "must be a whole number, 0 or more")
    numbers = {key: body[key] for key in ("budget_usd",) if key in body}
    for key, item in numbers.items():
        if isinstance(item, bool) or not isinstance(item, (int, float)) or not item >= 0:
            raise Fault((*place, key), "must be a number, 0 or more")
    timeout = seconds_of(body["timeout"], (*place, "timeout")) if "timeout" in body else None
    return LimitSettings(**whole, **numbers, timeout=timeout)


def shown(key: str, value: float) -> str:
    """Return the value of a limit as people write it."""
    if key == "timeout":
        return duration(value)
    return f"{value:g}" if key == "budget_usd" else str(value)


def within(limits: PlanLimits, most: LimitSettings) -> PlanLimits:
    """Return the smaller of each limit."""
    smaller = {}
    for key, name in BOUNDS.items():
        said, now = getattr(most, key), getattr(limits, name)
        if said is not None and (now is None or said < now):
            smaller[name] = said
    return replace(limits, **smaller)


def rounds_within(rounds: int, most: LimitSettings) -> int:
    """Return how often a failed proof goes back, where a role says so often at most."""
    return rounds if most.rounds is None else min(rounds, most.rounds)


__all__ = [
    "BOUNDS",
    "LIMIT_KEYS",
    "WHOLE_LIMITS",
    "LimitSettings",
    "limits_of",
    "rounds_within",
    "shown",
    "within",
]
