"""What a provider's own list of models says of one that is asked for."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from patchyard.clients.http import HttpTrouble, Trouble
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.failover import has_no_list
from patchyard.domain.nearness import near_names
from patchyard.models.answering import mapping
from patchyard.models.troubles import Provider

SHOWN = 4  # models named to whom asked for one that is not there

Offered = Callable[[], Awaitable[Sequence[str]]]  # raises ModelFailed or ModelUnavailable


def names_in(data: Any) -> tuple[str, ...]:
    """Return the models of a list as OpenAI and Anthropic give it: `data`, each with an `id`."""
    rows = mapping(data).get("data")
    listed = rows if isinstance(rows, list) else []
    return tuple(str(mapping(row)["id"]) for row in listed if "id" in mapping(row))


async def require_listed(provider: Provider, offered: Offered) -> None:
    """Raise ModelUnavailable where the list lacks the model; a provider may well have no list.

    Raises ModelFailed or ModelUnavailable where the list cannot be had.
    """
    try:
        names = await offered()
    except (ModelFailed, ModelUnavailable) as error:
        if has_no_list(error):
            return
        raise
    if names and provider.model not in names:
        trouble = HttpTrouble(Trouble.STATUS, "", status=404, body="its list lacks the name")
        raise _naming(provider, names).translated(trouble)


async def advised(
    provider: Provider, trouble: HttpTrouble, offered: Offered
) -> ModelFailed | ModelUnavailable:
    """Return the error for `trouble`; of a missing model with the nearest that are listed."""
    if trouble.status != 404:
        return provider.translated(trouble)
    try:
        return _naming(provider, await offered()).translated(trouble)
    except (ModelFailed, ModelUnavailable):
        return provider.translated(trouble)


def _naming(provider: Provider, names: Sequence[str]) -> Provider:
    near = near_names(provider.model, names, most=SHOWN) or names[:SHOWN]
    listed = ", ".join(f"`{name[:80]}`" for name in near)
    return replace(provider, missing_hint=f"it has {listed}" if listed else "")


__all__ = ["SHOWN", "Offered", "advised", "names_in", "require_listed"]
