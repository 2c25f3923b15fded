"""What programs are told of the budgets that plans share."""

from typing import Any

from patchyard.domain.booking import KEYS, UNITS
from patchyard.domain.budget import Amount, Ceiling
from patchyard.engine.ledger import Ledger


async def shared_budgets(ledger: Ledger) -> list[dict[str, Any]]:
    """Return each account that a plan counts in: its limits, what was used and is set aside."""
    return [
        {
            "scope": account.prefix,
            "of": account.title,
            "limits": _plain(ceiling),
            "spent": _plain(tally.spent),
            "reserved": _plain(tally.reserved),
        }
        for account, ceiling, tally in await ledger.accounts()
    ]


def _plain(amounts: Amount | Ceiling) -> dict[str, float | int | None]:
    """Money in USD and time in seconds, under the names that the settings have."""
    plain: dict[str, float | int | None] = {}
    for measure, key in KEYS.items():
        value = getattr(amounts, measure)
        size = UNITS[measure][1]
        plain[key] = value if value is None or size == 1 else value / size
    return plain


__all__ = ["shared_budgets"]
