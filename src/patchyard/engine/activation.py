"""Devcontainers: built when they are first needed, and how each stands, for all to see."""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from patchyard.contracts.environment import Building, Environment
from patchyard.domain.devcontainer import Devcontainer, places_known
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Limits,
)
from patchyard.domain.errors import EnvironmentUnavailable, JournalBroken
from patchyard.domain.events import Noted
from patchyard.domain.features import CREATING, STARTING, commands_in
from patchyard.domain.holdings import Holdings, HomeEvent, ResourceMoved
from patchyard.domain.resource import Standing
from patchyard.domain.retention import Family
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.equipment import Equipment
from patchyard.engine.images import Images
from patchyard.engine.ledger import Ledger
from patchyard.engine.sites import general_site, image_of, limits_of

SAID = 2000  # characters kept of why one failed


@asynccontextmanager
async def activating(
    equipment: Equipment, ledger: Ledger, environment: Environment, spec: EnvironmentSpec
) -> AsyncIterator[EnvironmentSpec]:
    """Yield what to start `environment` with, its image built; how it went is kept.

    Raises EnvironmentUnavailable where the image cannot be had.
    """
    if not isinstance(environment, Building):
        yield spec
        return
    async with failing(equipment, spec.resource):
        yield await _with_image(equipment, ledger, environment, spec)
    await moved(equipment, spec.resource, Standing.RUNNING)


@asynccontextmanager
async def failing(equipment: Equipment, resource: str) -> AsyncIterator[None]:
    """Keep why a devcontainer cannot be had."""
    try:
        yield
    except EnvironmentUnavailable as error:
        await moved(equipment, resource, Standing.FAILED, cause=error.message[:SAID])
        raise


async def deactivated(equipment: Equipment, handle: EnvironmentHandle) -> None:
    """Say that a devcontainer is stopped where this was the last environment of it."""
    if handle.kind != ExecutionEnvironment.DEVCONTAINER:
        return
    if not set(await running(equipment, handle.resource)) - {handle.environment_id}:
        await moved(equipment, handle.resource, Standing.STOPPED)


async def stop(equipment: Equipment, name: str) -> Sequence[str]:
    """End every environment on this machine that uses a resource; return their names.

    Plans that were at work there go on in a new one. Raises EnvironmentBroken when one stays.
    """
    ended = []
    for keeper in equipment.keepers:
        if keeper.family != Family.ENVIRONMENT:
            continue
        for found in await keeper.found():
            if found.resource == name:
                await keeper.give_back(found, unused_since=math.inf)
                ended.append(found.name)
    await moved(equipment, name, Standing.STOPPED)
    return ended


async def rebuild(equipment: Equipment, name: str) -> Sequence[str]:
    """Take away the images that were built for a resource: its next start builds anew.

    Returns their names. Raises EnvironmentUnavailable without a container engine.
    """
    environment = equipment.environment(ExecutionEnvironment.DEVCONTAINER)
    await stop(equipment, name)
    assert isinstance(environment, Building)  # noqa: S101 - the registry's own
    return await environment.forget_images(name)


async def running(equipment: Equipment, resource: str) -> Sequence[str]:
    """Return the names of the environments on this machine that use a resource."""
    return [
        found.name
        for keeper in equipment.keepers
        if keeper.family == Family.ENVIRONMENT
        for found in await keeper.found()
        if found.resource == resource
    ]


async def moved(equipment: Equipment, name: str, state: Standing, *, cause: str = "") -> None:
    """Keep how a devcontainer stands, if that is new. One that was taken away stays away."""
    at = equipment.clock.now()

    def decide(holdings: Holdings) -> Sequence[HomeEvent]:
        known = holdings.standings.get(name)
        is_new = known is None or (known.state, known.cause) != (state, cause)
        if name not in holdings.resources or not is_new:
            return []
        return [ResourceMoved(name=name, state=state, cause=cause, at=at)]

    await Catalogue(equipment.store.journal, equipment.clock).change(decide)


@dataclass(frozen=True, kw_only=True)
class Commands:
    """What environments of a plan run by themselves."""

    setup: Sequence[str]  # those of features first, so they are installed where they are not yet
    starts: Sequence[str] = ()  # at each start of a devcontainer
    image: str = ""  # the devcontainer's with its features; empty without any


async def commands_of(equipment: Equipment, ledger: Ledger) -> Commands:
    """Return the commands of a plan's setup and of its devcontainer's starts.

    Raises EnvironmentUnavailable.
    """
    spec = ledger.state.known
    site = general_site(spec)
    own = spec.devcontainers.get(site.resource)
    if own is None:
        return Commands(setup=spec.setup)
    environment = equipment.environment(site.kind)
    if own.extension is None or not isinstance(environment, Building):
        return Commands(setup=spec.setup, starts=own.started)
    async with failing(equipment, site.resource):
        images = _images(equipment, ledger, environment, site.resource, limits_of(site, spec))
        image = await images.made(own, image_of(site, spec))
        metadata = await images.metadata(image)
    if not await running(equipment, site.resource):
        await moved(equipment, site.resource, Standing.STOPPED)
    further = spec.setup[len(own.created) :]  # its own ones stand first, and in the metadata too
    return Commands(
        setup=(*_commands(ledger, own, metadata, CREATING), *further),
        starts=_commands(ledger, own, metadata, STARTING),
        image=image,
    )


async def _with_image(
    equipment: Equipment, ledger: Ledger, environment: Building, spec: EnvironmentSpec
) -> EnvironmentSpec:
    own = ledger.state.known.devcontainers.get(spec.resource)
    if own is None:
        raise JournalBroken(f"the plan knows nothing of the devcontainer {spec.resource}")
    images = _images(equipment, ledger, environment, spec.resource, spec.limits)
    image = await images.made(own, spec.image)
    if own.extension is None:
        return replace(spec, image=image)
    said = await images.metadata(image)
    return replace(spec, image=image, commands=_commands(ledger, own, said, STARTING))


def _commands(
    ledger: Ledger,
    own: Devcontainer,
    metadata: Sequence[Mapping[str, Any]],
    hooks: Sequence[str],
) -> tuple[str, ...]:
    known = places_known(ledger.state.known.repository, own.folder)
    return commands_in(metadata, hooks, known)


def _images(
    equipment: Equipment, ledger: Ledger, environment: Building, resource: str, limits: Limits
) -> Images:
    base = ledger.state.base
    if base is None:
        raise JournalBroken("a plan without a base has no devcontainer")

    async def announce(text: str) -> None:
        await moved(equipment, resource, Standing.BUILDING)
        await ledger.record(Noted(text=text[:SAID]))

    return Images(
        equipment.trees, base, environment, resource=resource, limits=limits, announce=announce
    )


__all__ = [
    "SAID",
    "Commands",
    "activating",
    "commands_of",
    "deactivated",
    "failing",
    "moved",
    "rebuild",
    "running",
    "stop",
]
