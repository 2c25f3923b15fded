"""Devcontainers: built when they are first needed, and how each stands, for all to see."""

import hashlib
import json
import math
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

from patchyard.contracts.environment import Building, Environment
from patchyard.domain.changeset import Base
from patchyard.domain.devcontainer import Build
from patchyard.domain.environment import EnvironmentHandle, EnvironmentSpec, ExecutionEnvironment
from patchyard.domain.errors import EnvironmentUnavailable, JournalBroken
from patchyard.domain.events import Noted
from patchyard.domain.holdings import Holdings, HomeEvent, ResourceMoved
from patchyard.domain.resource import Standing
from patchyard.domain.retention import Family
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger

IMAGE = "patchyard-devcontainer"
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
    try:
        yield await _with_image(equipment, ledger, environment, spec)
    except EnvironmentUnavailable as error:
        await moved(equipment, spec.resource, Standing.FAILED, cause=error.message[:SAID])
        raise
    await moved(equipment, spec.resource, Standing.RUNNING)


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


async def _with_image(
    equipment: Equipment, ledger: Ledger, environment: Building, spec: EnvironmentSpec
) -> EnvironmentSpec:
    own = ledger.state.known.devcontainers.get(spec.resource)
    base = ledger.state.base
    if own is None or base is None:
        raise JournalBroken(f"the plan knows nothing of the devcontainer {spec.resource}")
    if own.build is None:
        return spec
    context = await equipment.trees.folder(base, own.build.context)
    image = image_name(context, own.build)
    if not await environment.has_image(image):
        await moved(equipment, spec.resource, Standing.BUILDING)
        await ledger.record(Noted(text=f"building {spec.resource} by {own.build.dockerfile}"))
        await _build(equipment, base, own.build, environment, image=image, spec=spec)
    return replace(spec, image=image)


async def _build(
    equipment: Equipment,
    base: Base,
    build: Build,
    environment: Building,
    *,
    image: str,
    spec: EnvironmentSpec,
) -> None:
    with tempfile.TemporaryDirectory(prefix="patchyard-build-") as folder:
        archive = Path(folder) / "context.tar"
        await equipment.trees.archive(base, build.context, archive)
        await environment.build(image, build, archive, resource=spec.resource, limits=spec.limits)


def image_name(context: str, build: Build) -> str:
    """Return the name of the image that `build` makes of a context, by the name of its tree."""
    text = json.dumps([context, asdict(build)], sort_keys=True)
    return f"{IMAGE}:{hashlib.sha256(text.encode()).hexdigest()[:24]}"


__all__ = [
    "IMAGE",
    "SAID",
    "activating",
    "deactivated",
    "image_name",
    "moved",
    "rebuild",
    "running",
    "stop",
]
