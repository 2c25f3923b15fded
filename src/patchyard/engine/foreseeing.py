"""What would keep a plan's places from starting, as far as that is known without starting one.

Asked before the first request to a model: what it planned would be lost.
"""

from collections.abc import Sequence
from contextlib import nullcontext

from patchyard.contracts.environment import Building, Foreseeing
from patchyard.domain.environment import Site
from patchyard.domain.plan import PlanSpec
from patchyard.domain.routing import route_of
from patchyard.domain.state import PlanState
from patchyard.engine.activation import failing
from patchyard.engine.equipment import Equipment
from patchyard.engine.sites import NO_DEVCONTAINER, image_of, limits_of


async def require_places(equipment: Equipment, state: PlanState) -> None:
    """Raise EnvironmentUnavailable, in a start's own words, where a place of a plan cannot start.

    What a tool would only rather have may be missing. Images that are built first are not looked
    at, nor hosts.
    """
    spec = state.known
    for site in _needed(spec, state):
        environment = equipment.environment(site.kind)
        own = spec.devcontainers.get(site.resource, NO_DEVCONTAINER)
        if isinstance(environment, Foreseeing) and own.build is None:
            reached = spec.resource(site.resource)
            runtime = reached.runtime if reached else ""
            image, limits = image_of(site, spec), limits_of(site, spec)
            is_kept = isinstance(environment, Building)  # how each of them stands
            async with failing(equipment, site.resource) if is_kept else nullcontext():
                await environment.foresee(image=image, runtime=runtime, limits=limits)


def _needed(spec: PlanSpec, state: PlanState) -> Sequence[Site]:
    tools = ("", *spec.tool_environments, *spec.tool_preferences)
    routes = [route_of(spec, tool, fallen=state.fallen) for tool in tools]
    return tuple(dict.fromkeys(route.site for route in routes if not route.is_preferred))


__all__ = ["require_places"]
