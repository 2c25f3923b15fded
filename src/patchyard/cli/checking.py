"""What `agents env check` finds out of a kind or a resource, whatever its type."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from patchyard.cli.cataloguing import checkout_of
from patchyard.cli.resource_discovery import standing_data
from patchyard.cli.seeing import repository_settings
from patchyard.clients.devcontainers_cli import find_cli
from patchyard.clients.glimpse import glimpse
from patchyard.configuration import repository_files
from patchyard.contracts.environment import Building, Foreseeing
from patchyard.domain.devcontainer import Build, Devcontainer
from patchyard.domain.dockerfile import images_needed
from patchyard.domain.environment import ExecutionEnvironment, Readiness, startable_kind
from patchyard.domain.errors import EnvironmentUnavailable, PatchyardError, UsageError
from patchyard.domain.kinds import needs_of, walls_said
from patchyard.domain.resource import (
    CONTAINER_INSTANCE,
    DEVCONTAINER_INSTANCE,
    GIT_CHECKOUT,
    Resource,
)
from patchyard.engine import trying
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.equipment import Equipment
from patchyard.engine.images import image_name
from patchyard.intake_devcontainers import described_by
from patchyard.intake_places import image_by_language

UNSTARTED = "is_unstarted"  # name of the fact: it was looked at, and nothing was started
NOTHING_RUNS = "none of its own: nothing runs in it; calls run where the chain says"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What came of a check."""

    name: str  # of the resource; of the kind where that was asked for
    kind: ExecutionEnvironment | None = None  # None: nothing runs there
    is_ready: bool = False
    cause: str = ""
    cure: str = ""
    type: str = ""  # of the resource
    runtime: str = ""
    needs: str = ""
    walls: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


async def checked(equipment: Equipment, place: str) -> Checked:
    """Find out whether calls can run in `place`. Raises UnknownName."""
    kind = startable_kind(place)
    if kind is not None:
        ready = await trying.check(equipment, kind, reaches_out=True)
        return _of(ready, Checked(name=str(kind), needs=needs_of(kind)), walls_said(kind))
    found = await trying.resource_named(equipment, place)
    if found.site is None:
        return _folder(found)
    if found.type == DEVCONTAINER_INSTANCE:
        ready = await _devcontainer(equipment, found)
    else:
        ready = await _with_image(equipment, found)
    is_local = trying.is_local(found)
    about = Checked(
        name=found.name,
        type=found.type,
        runtime=found.runtime,
        needs=needs_of(found.site.kind, is_local=is_local),
    )
    walls = walls_said(
        found.site.kind, runtime=found.runtime, carries=found.carries, is_local=is_local
    )
    return _of(ready, about, walls)


def _of(ready: Readiness, about: Checked, walls: str) -> Checked:
    return replace(
        about,
        kind=ready.kind,
        is_ready=ready.is_ready,
        cause=ready.cause,
        cure=ready.cure,
        walls=walls,
        facts=ready.facts,
    )


def _folder(found: Resource) -> Checked:
    """Look whether what projects work on is there."""
    place = Path(found.location)
    cause = cure = ""
    is_checkout = found.type == GIT_CHECKOUT
    if not place.is_dir() or not os.access(place, os.R_OK | os.X_OK):
        cause, cure = f"{place} is not there, or cannot be read", "bring it back"
    elif is_checkout and not (place / ".git").exists():
        cause, cure = f"{place} is no git checkout any more", "`git init` there"
    if cause:
        cure += f", or take the resource away: `agents resource remove {found.name}`"
    return Checked(
        name=found.name,
        type=found.type,
        kind=None,
        is_ready=not cause,
        cause=cause,
        cure=cure,
        needs="a git checkout that you may read" if is_checkout else "a folder that you may read",
        walls=NOTHING_RUNS,
        facts={"location": found.location},
    )


async def _with_image(equipment: Equipment, found: Resource) -> Readiness:
    """Start one; a container that names no image has that of the checkout around this folder."""
    if found.type != CONTAINER_INSTANCE or found.image:
        return await trying.check_resource(equipment, found)
    holdings = await Catalogue(equipment.store.journal, equipment.clock).holdings()
    try:
        top = checkout_of(".")
    except UsageError:
        return Readiness(
            kind=ExecutionEnvironment.CONTAINER,
            is_ready=False,
            cause=f"{found.name} names no image: the language of a plan's repository decides",
            cure="check it in a checkout, or name one: `agents resource add … --image IMAGE`",
        )
    sight = glimpse(Path(top), None)
    files = repository_files(sight)
    trust = holdings.trust_in(top, files.digest, files.marks)
    project = holdings.project_of(top)
    linked = project.linked(holdings.resources) if project else ()
    seen = repository_settings(top, trust=trust, project=project, linked=linked, files=files)
    image, why = image_by_language(seen.configuration, sight)
    ready = await trying.check_resource(equipment, replace(found, image=image))
    own = ready.facts.get("note")
    return replace(ready, facts={**ready.facts, "note": f"{f'{own}, ' if own else ''}{why}"})


async def _devcontainer(equipment: Equipment, found: Resource) -> Readiness:
    """Start one where its image is there; else say what is known of how it is to be built."""
    kind = ExecutionEnvironment.DEVCONTAINER
    holdings = await Catalogue(equipment.store.journal, equipment.clock).holdings()
    facts = {"config": found.config, "state": standing_data(found, holdings)["state"]}
    try:
        top = Path(found.location)  # as it was resolved when it was added
        sight = glimpse(top, None)
        files = repository_files(sight)
        own = described_by(
            found,
            str(top),
            sight,
            trust=holdings.trust_in(str(top), files.digest, files.marks),
            environ=os.environ,
        )
        image, to_build = await _image(equipment, own, top)
    except (PatchyardError, OSError) as error:
        cause = error.message if isinstance(error, PatchyardError) else str(error)
        cure = error.hint if isinstance(error, PatchyardError) else "look at the checkout"
        return Readiness(kind=kind, is_ready=False, cause=cause, cure=cure, facts=facts)
    if to_build:
        return Readiness(
            kind=kind, is_ready=True, facts={**facts, UNSTARTED: True, "note": to_build}
        )
    spec = replace(trying.spec_of(found), image=image, user=own.user, variables=own.variables)
    ready = await trying.check_at(equipment, kind, spec)
    return replace(ready, facts={**facts, **ready.facts})


async def _image(equipment: Equipment, own: Devcontainer, top: Path) -> tuple[str, str]:
    """Return the image that can be started now, or how one is made when it is first used.

    Raises EnvironmentUnavailable for what stands in the way of that.
    """
    environment = equipment.environment(ExecutionEnvironment.DEVCONTAINER)
    assert isinstance(environment, Building)  # noqa: S101 - the registry's own
    assert isinstance(environment, Foreseeing)  # noqa: S101 - likewise
    image = own.image
    if own.build is not None:
        base = await equipment.trees.snapshot(top)
        folder = await equipment.trees.folder(base, own.build.context)
        image = image_name(folder, asdict(own.build))
        if not await environment.has_image(image):
            await _require_parts(environment, own.build, top)
            return "", f"nothing was started: the first use builds it by {own.build.dockerfile}"
    await environment.foresee(image=image)
    if own.extension is not None:
        find_cli(os.environ)
        names = ", ".join(own.features)
        return "", f"nothing was started: the first use installs {names}, where that is not done"
    return image, ""


async def _require_parts(environment: Foreseeing, build: Build, top: Path) -> None:
    """Raise EnvironmentUnavailable for an image that its Dockerfile takes and is not here."""
    text = glimpse(top, None).read(build.dockerfile)
    if text is None:
        raise UsageError(
            f"there is no file {build.dockerfile} in the checkout", hint="write it, and commit it"
        )
    said = text.decode("utf-8", "surrogateescape")
    reading = partial(images_needed, path=build.dockerfile, arguments=build.arguments)
    for needed in await asyncio.to_thread(reading, said):
        try:
            await environment.foresee(image=needed.image)
        except EnvironmentUnavailable as error:
            where = f"{build.dockerfile}:{needed.line}"
            raise EnvironmentUnavailable(f"{where}: {error.message}", hint=error.hint) from error


__all__ = ["NOTHING_RUNS", "UNSTARTED", "Checked", "checked"]
