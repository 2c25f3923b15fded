"""Devcontainers as resources: found in a checkout, and how each stands."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from patchyard.domain.devcontainer import PLACES, places_in
from patchyard.domain.errors import UsageError
from patchyard.domain.holdings import Holdings
from patchyard.domain.resource import DEVCONTAINER_INSTANCE, Resource, Standing
from patchyard.engine.catalogue import Catalogue


def config_in(checkout: str) -> str:
    """Return the path of a checkout's nearest devcontainer.json. Raises UsageError."""
    found = _places(checkout)
    if not found:
        raise UsageError(
            f"there is no devcontainer.json in {checkout}", hint=f"write {PLACES[0]} first"
        )
    return found[0]


def _places(checkout: str) -> Sequence[str]:
    from patchyard.clients.glimpse import glimpse  # noqa: PLC0415 - only where one is added

    sight = glimpse(Path(checkout), None)
    return places_in(sight.names(), sight.names)


async def discover(catalogue: Catalogue, checkout: Resource) -> Sequence[Resource]:
    """Add the devcontainers of a checkout as resources of their own; routing stays as it is."""
    taken = set((await catalogue.holdings()).resources)
    added = []
    for path in _places(checkout.location):
        name = _free_name(f"{checkout.name}-{_shortened(path)}", taken)
        taken.add(name)  # folders of other names may come to the same
        made = Resource(
            name=name,
            type=DEVCONTAINER_INSTANCE,
            location=checkout.location,
            config=path,
            parent=checkout.name,
        )
        added.append(await catalogue.add_resource(made))
    return added


def _shortened(path: str) -> str:
    """Return `devcontainer`, with the folder's name where one of several lies in one."""
    folders = Path(path).parent.parts
    return f"devcontainer-{folders[1]}" if len(folders) > 1 else "devcontainer"


def _free_name(wanted: str, taken: Collection[str]) -> str:
    plain = "".join(char if char.isascii() and char.isalnum() else "-" for char in wanted)[:90]
    numbered = (f"{plain}-{number}" for number in range(2, 1000))
    return plain if plain not in taken else next(one for one in numbered if one not in taken)


def standing_data(found: Resource, holdings: Holdings) -> dict[str, Any]:
    """Return how a devcontainer stands; nothing for other resources."""
    if found.type != DEVCONTAINER_INSTANCE:
        return {}
    last = holdings.standings.get(found.name)
    return {
        "config": found.config,
        "parent": found.parent or None,
        "state": str(last.state if last else Standing.DISCOVERED),
        "cause": last.cause or None if last else None,
    }


__all__ = ["config_in", "discover", "standing_data"]
