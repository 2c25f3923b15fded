"""When what failed is tried again by itself, and after how long. Pure (retry guidance of B+).

A failure that passes by itself (a time-out, a busy provider, a lost environment) leaves the
strategy as it is; one of the strategy leads back to strategize, where the profile allows it.
"""

from collections.abc import Mapping
from typing import Any

FIRST_S = 1.0
FACTOR = 4.0
LONGEST_S = 60.0  # of one wait, whatever a provider asks for
SPREAD = 0.25  # so that many plans do not come back at once: at most so much longer

# Codes of failures that say something of the strategy, not of the moment.
OF_STRATEGY = frozenset({"validation_failed", "reconciliation_blocked"})

# What a provider that answered before may suffer from for a while.
PASSING_TROUBLES = frozenset({"refused", "dns"})

# What says that nobody is there for the moment. It is waited for as long as the plan's time allows.
OUTAGES = frozenset({*PASSING_TROUBLES, "rate_limited", "timeout"})
OUTAGE_STATUS = frozenset({502, 503, 504})
IS_OUTAGE = "is_outage"  # said in the details of an error that stands for several


def is_outage(details: Mapping[str, Any]) -> bool:
    """Whether an error with these details says that a provider is away, not what it does wrong."""
    is_away = details.get("kind") in OUTAGES or details.get("status") in OUTAGE_STATUS
    return is_away or details.get(IS_OUTAGE) is True


def wait_before(number: int, *, details: Mapping[str, Any], spread: float = 0.0) -> float:
    """Return the seconds before retry `number` (1, 2, 3 ...); a provider's own wish is honoured.

    `spread` is a number from 0 to 1 that differs from plan to plan.
    """
    wait_s = FIRST_S * FACTOR ** min(number - 1, 10)  # an outage may be waited for long
    asked = details.get("retry_after_s")
    if isinstance(asked, (int, float)) and not isinstance(asked, bool):
        wait_s = max(wait_s, float(asked))
    return float(round(min(LONGEST_S, wait_s) * (1.0 + SPREAD * spread), 3))


def spread_of(plan_id: str) -> float:
    """Return a number from 0 to 1 that is the same for a plan each time."""
    return sum(plan_id.encode()) % 97 / 97


__all__ = [
    "FACTOR",
    "FIRST_S",
    "IS_OUTAGE",
    "LONGEST_S",
    "OF_STRATEGY",
    "OUTAGES",
    "OUTAGE_STATUS",
    "PASSING_TROUBLES",
    "SPREAD",
    "is_outage",
    "spread_of",
    "wait_before",
]
