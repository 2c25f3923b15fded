"""Starts one environment for certain and ends it: of a kind, or of a resource by its name."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from patchyard.contracts.environment import Describing
from patchyard.domain.address import Address
from patchyard.domain.environment import (
    HERE,
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
    Readiness,
    is_gvisor,
    startable_kind,
)
from patchyard.domain.environment_limits import limits_for
from patchyard.domain.errors import PatchyardError, UnknownName, UsageError
from patchyard.domain.gvisor import note_of
from patchyard.domain.machine import refusal_of
from patchyard.domain.resource import DEVCONTAINER_INSTANCE, KINDS, LOCALHOST, Resource
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.equipment import Equipment

TARGET = "/srv/patchyard-check"  # where the empty workspace is seen
SAID = ("resource", "image", "runtime", "address", "carries")  # of a spec, among the facts
WEAKER = "unheld"  # name of the fact: limits that were asked for and nothing there holds


async def trial_of(
    equipment: Equipment, place: str
) -> tuple[ExecutionEnvironment, EnvironmentSpec | None]:
    """Return what `place` is started with; None: the kind knows by itself.

    Raises UnknownName, UsageError for a resource in which nothing can be tried.
    """
    kind = startable_kind(place)
    if kind is not None:
        return kind, None
    found = await resource_named(equipment, place)
    if found.site is None or found.type == DEVCONTAINER_INSTANCE:
        raise UsageError(
            f"{place} is a {found.type}, and nothing can be started in it by itself",
            hint="name a kind, or a container, a host or a machine that was added",
        )
    return found.site.kind, spec_of(found)


async def resource_named(equipment: Equipment, name: str) -> Resource:
    """Return the resource of that name. Raises UnknownName, which lists kinds and resources."""
    holdings = await Catalogue(equipment.store.journal, equipment.clock).holdings()
    if name not in holdings.resources:
        raise UnknownName.among("kind or resource", name, [*map(str, HERE), *holdings.resources])
    return holdings.resources[name]


def is_local(found: Resource) -> bool:
    """Whether it is an SSH host that means this machine itself (F2.20)."""
    return bool(found.address) and (
        Address.parse(found.address).host == LOCALHOST and found.transport != "ssh"
    )


def spec_of(found: Resource) -> EnvironmentSpec:
    """Return what an environment of a resource is started with, over no workspace yet."""
    return EnvironmentSpec(
        plan_id="",
        purpose="check",
        workspace=Mount(source="", target=TARGET),
        resource=found.name,
        image=found.image,
        runtime=found.runtime,
        address=found.address,
        transport=found.transport,
        carries=found.carries,
        limits=limits_for(found.limits),
    )


async def check(
    equipment: Equipment, kind: ExecutionEnvironment, *, reaches_out: bool = False
) -> Readiness:
    """Really start one of a kind and end it; raises UnknownName for one that there is not.

    A kind that cannot start by itself is tried with the resources that were added for it, in the
    order of their names; those on other machines only where `reaches_out`.
    """
    adapter = equipment.environment(kind)
    alone = await adapter.check()
    own = [] if alone.is_ready else await _added(equipment, kind)
    if own and kind == ExecutionEnvironment.SSH and not reaches_out:
        names = " or ".join(f"`agents env check {each.name}`" for each in own)
        return replace(alone, cure=f"{names} tries one of those that were added")
    tried = alone
    for each in own:
        tried = await check_resource(equipment, each)
        if tried.is_ready:
            note = ", ".join(filter(None, (str(tried.facts.get("note", "")), f"by {each.name}")))
            return replace(tried, facts={**tried.facts, "note": note})
    return tried


async def _added(equipment: Equipment, kind: ExecutionEnvironment) -> Sequence[Resource]:
    holdings = await Catalogue(equipment.store.journal, equipment.clock).holdings()
    return [
        each
        for _, each in sorted(holdings.resources.items())
        if KINDS.get(each.type) == kind and each.type != DEVCONTAINER_INSTANCE
    ]


async def check_resource(equipment: Equipment, found: Resource) -> Readiness:
    """Really start one in a resource that calls can be routed to, and end it."""
    if found.site is None:
        raise AssertionError(f"nothing runs in {found.name}")
    if is_local(found):
        ready = await equipment.environment(ExecutionEnvironment.HOST).check()
        facts = {**ready.facts, "resource": found.name, "address": found.address}
        return replace(ready, kind=found.site.kind, facts=facts)
    return await check_at(equipment, found.site.kind, spec_of(found))


async def check_at(
    equipment: Equipment, kind: ExecutionEnvironment, spec: EnvironmentSpec
) -> Readiness:
    """Really start one as `spec` says, over an empty workspace, and end it."""
    adapter = equipment.environment(kind)
    named = {name: str(getattr(spec, name) or "") for name in SAID}
    facts: dict[str, Any] = {key: value for key, value in named.items() if value}
    try:
        with tempfile.TemporaryDirectory(prefix="patchyard-check-") as folder:
            workspace = Mount(source=folder, target=spec.workspace.target)
            ready = replace(spec, workspace=workspace)
            handle = await adapter.start(ready)
            await adapter.end(handle)
            if isinstance(adapter, Describing):
                facts |= await adapter.described(ready)
    except (PatchyardError, OSError) as error:
        found = refusal_of(error)
        cause, cure = found.message, found.hint
        return Readiness(kind=kind, is_ready=False, cause=cause, cure=cure, facts=facts)
    facts[WEAKER] = list(handle.details.get(WEAKER, ()))
    if is_gvisor(spec.runtime):
        facts["note"] = note_of(str(facts.get("gvisor", "")))
    return Readiness(kind=kind, is_ready=True, facts={k: v for k, v in facts.items() if v})


__all__ = [
    "SAID",
    "TARGET",
    "WEAKER",
    "check",
    "check_at",
    "check_resource",
    "is_local",
    "resource_named",
    "spec_of",
    "trial_of",
]
