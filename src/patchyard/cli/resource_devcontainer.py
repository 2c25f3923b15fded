"""`agents resource` on devcontainers: found in a checkout, stopped, built anew."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click

from patchyard.cli.opening import engine_opened
from patchyard.cli.outcome import Outcome, carry_out, counted, format_option
from patchyard.clients.glimpse import glimpse
from patchyard.domain.devcontainer import PLACES, places_in
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import UsageError
from patchyard.domain.holdings import Holdings
from patchyard.domain.resource import DEVCONTAINER_INSTANCE, Resource, Standing
from patchyard.engine import activation
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.equipment import Equipment


def config_in(checkout: str) -> str:
    """Return the path of a checkout's nearest devcontainer.json. Raises UsageError."""
    found = _places(checkout)
    if not found:
        raise UsageError(
            f"there is no devcontainer.json in {checkout}", hint=f"write {PLACES[0]} first"
        )
    return found[0]


def _places(checkout: str) -> Sequence[str]:
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


async def _require_instance(equipment: Equipment, name: str) -> None:
    found = (await Catalogue(equipment.store.journal, equipment.clock).holdings()).resource(name)
    if found.type != DEVCONTAINER_INSTANCE:
        raise UsageError(
            f"{name} is a {found.type}", hint="only a devcontainer-instance is built and stopped"
        )


@click.command(epilog="Example: agents resource stop shop-devcontainer")
@click.argument("name")
@format_option
def stop(name: str, output_format: str) -> None:
    """End every environment of a devcontainer; plans at work there go on in a new one."""

    async def work() -> Outcome:
        async with engine_opened() as equipment:
            await _require_instance(equipment, name)
            ended = list(await activation.stop(equipment, name))
        data = {"name": name, "state": str(Standing.STOPPED), "ended": ended}
        return Outcome(data=data, text=f"stopped {name}: {len(ended)} ended")

    carry_out("resource stop", output_format, work)


@click.command(epilog="Example: agents resource rebuild shop-devcontainer")
@click.argument("name")
@format_option
def rebuild(name: str, output_format: str) -> None:
    """Stop a devcontainer and forget what was built: the next use builds it anew."""

    async def work() -> Outcome:
        async with engine_opened() as equipment:
            await _require_instance(equipment, name)
            equipment.environment(ExecutionEnvironment.DEVCONTAINER)
            images = list(await activation.rebuild(equipment, name))
        data = {"name": name, "state": str(Standing.STOPPED), "images": images}
        text = (
            f"{name} is built anew when it is next used; {counted(len(images), 'image')} forgotten"
        )
        return Outcome(data=data, text=text)

    carry_out("resource rebuild", output_format, work)


__all__ = ["config_in", "discover", "rebuild", "standing_data", "stop"]
