"""Starts one environment for certain and ends it: of a kind, or of a resource by its name."""

import tempfile
from dataclasses import replace

from patchyard.domain.environment import (
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
    Readiness,
    is_gvisor,
    kind_of_word,
    no_such_kind,
)
from patchyard.domain.errors import PatchyardError, UsageError
from patchyard.domain.resource import DEVCONTAINER_INSTANCE, names_of
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.equipment import Equipment

TARGET = "/srv/patchyard-check"  # where the empty workspace is seen


async def trial_of(
    equipment: Equipment, place: str
) -> tuple[ExecutionEnvironment, EnvironmentSpec | None]:
    """Return what `place` is started with; None: the kind knows by itself.

    Raises UnknownName, UsageError for a resource in which nothing can be tried.
    """
    kind = kind_of_word(place)
    if kind is not None:
        return kind, None
    holdings = await Catalogue(equipment.store.journal, equipment.clock).holdings()
    found = holdings.resources.get(place)
    if found is None:
        raise no_such_kind(place, linked=names_of(holdings.resources.values()))
    if found.site is None or found.type == DEVCONTAINER_INSTANCE:
        raise UsageError(
            f"{place} is a {found.type}, and nothing can be tried in it by itself",
            hint="name a kind, or a container, a host or a machine that was added",
        )
    return found.site.kind, EnvironmentSpec(
        plan_id="",
        purpose="check",
        workspace=Mount(source="", target=TARGET),
        resource=found.name,
        image=found.image,
        runtime=found.runtime,
        address=found.address,
        transport=found.transport,
        carries=found.carries,
    )


async def check(equipment: Equipment, place: str) -> Readiness:
    """Really start one there and end it. Raises UnknownName, UsageError."""
    kind, spec = await trial_of(equipment, place)
    adapter = equipment.environment(kind)
    if spec is None:
        return await adapter.check()
    with tempfile.TemporaryDirectory(prefix="patchyard-check-") as folder:
        workspace = Mount(source=folder, target=TARGET)
        try:
            await adapter.end(await adapter.start(replace(spec, workspace=workspace)))
        except PatchyardError as error:
            return Readiness(kind=kind, is_ready=False, cause=error.message, cure=error.hint)
    names = ("resource", "image", "runtime", "address", "carries")
    facts = {name: str(getattr(spec, name) or "") for name in names}
    facts["note"] = "in gVisor" if is_gvisor(spec.runtime) else ""
    return Readiness(kind=kind, is_ready=True, facts={k: v for k, v in facts.items() if v})


__all__ = ["TARGET", "check", "trial_of"]
