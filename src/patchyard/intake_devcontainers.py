"""Devcontainers of a repository: which a plan can use, and what their files say in its base."""

import os
from collections.abc import Mapping
from dataclasses import replace

from patchyard.clients.glimpse import Glimpse
from patchyard.domain.devcontainer import Devcontainer, Sight, parse_devcontainer, without_effect
from patchyard.domain.errors import PatchyardError, UsageError
from patchyard.domain.holdings import Holdings
from patchyard.domain.plan import PlanSpec
from patchyard.domain.reach import looks_secret
from patchyard.domain.resource import DEVCONTAINER_INSTANCE, Resource
from patchyard.domain.routing import route_of, sites_of
from patchyard.domain.trust import Trust
from patchyard.toolbox.inside import stands_in_container


def discovered_in(holdings: Holdings, checkout: str) -> Resource | None:
    """Return the nearest devcontainer that was discovered in a checkout."""
    found = [
        each
        for each in holdings.resources.values()
        if each.type == DEVCONTAINER_INSTANCE and each.parent and each.location == checkout
    ]
    return min(found, key=lambda each: (each.config.count("/"), each.config), default=None)


def with_devcontainers(
    spec: PlanSpec,
    sight: Glimpse | None,
    *,
    trust: Trust,
    environ: Mapping[str, str],
    says_setup: bool,
) -> tuple[PlanSpec, tuple[str, ...]]:
    """Fill in what the devcontainers say that calls can be routed to, and what to say of it.

    Raises UsageError with the place, GuardRefused for what an untrusted repository may not say.
    """
    used = {site.resource for site in sites_of(spec)}
    own = (spec.discovered, *spec.resources)
    wanted = [each for each in own if each and each.type == DEVCONTAINER_INSTANCE]
    read = {}
    for each in wanted:
        try:
            read[each.name] = described_by(
                each, spec.repository, sight, trust=trust, environ=environ
            )
        except PatchyardError:
            if each.name in used:
                raise
    spec = replace(spec, devcontainers=read)
    here = read.get(route_of(spec).resource)
    if here is None:
        return spec, ()
    setup = (*here.created, *(spec.setup if says_setup or not here.created else ()))
    return replace(spec, setup=setup), _notes(here)


def _notes(here: Devcontainer) -> tuple[str, ...]:
    said = []
    if here.created:
        said.append(f"setup by {here.path}: {' && '.join(here.created)}")
    if here.passed_over:
        said.append(f"{here.path}: {without_effect(here.passed_over)}")
    return tuple(said)


def described_by(
    resource: Resource,
    repository: str,
    sight: Glimpse | None,
    *,
    trust: Trust,
    environ: Mapping[str, str],
) -> Devcontainer:
    """Return what the file of a devcontainer in `repository` says.

    Raises UsageError with the place, GuardRefused for what an untrusted repository may not say.
    """
    if os.path.realpath(resource.location) != repository or sight is None:
        raise UsageError(
            f"{resource.name} is the devcontainer of {resource.location}, not of this repository",
            hint="link one of this checkout",
        )
    data = sight.read(resource.config)
    if data is None:
        raise UsageError(
            f"{resource.config} is not in the base of this plan, or no plain file",
            hint="commit it, or plan the checkout as it is (without `--ref`)",
        )

    def local(name: str) -> str | None:
        value = environ.get(name)
        return None if value is None or looks_secret(name, value) else value

    about = Sight(
        path=resource.config,
        checkout=repository,
        is_trusted=trust.is_given,
        void=trust.void,
        local=local,
        files=sight,
    )
    found = parse_devcontainer(data.decode("utf-8", "replace"), about)
    if found.folder and stands_in_container(found.folder):
        raise UsageError(
            f"{resource.config}: workspaceFolder: {found.folder} would stand in for a part of the"
            " container",
            hint=f"name another folder in {resource.config}, as /workspaces/NAME",
        )
    return found


__all__ = ["described_by", "discovered_in", "with_devcontainers"]
