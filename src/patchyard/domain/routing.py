"""Where a tool call runs, and which level of the chain decided. Pure.

Four levels as they come: tool, plan, project, resource, and a default below them (A6, A7). Where a
priority is set or discovery is on, six: what overrides goes first, what falls back gives way to a
devcontainer (A+, F2.2 to F2.4, F2.18). A tool's preference stands on top of both.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchyard.domain.environment import STRENGTH, ExecutionEnvironment, Priority, Site
from patchyard.domain.errors import EnvironmentUnavailable, UsageError
from patchyard.domain.mcp import PREFIX, entrusted_name, family_of
from patchyard.domain.plan import PlanSpec
from patchyard.domain.preference import Preference, ToolPreference
from patchyard.domain.resource import Resource, site_named
from patchyard.domain.tooling import COMMAND, OF_JOBS

NO_PREFERENCE = ToolPreference()
DEVCONTAINER = "devcontainer"  # the level of one that was discovered
LEAST = ExecutionEnvironment.PROCESS  # what a preference falls to is never weaker


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What is said at each level, a kind or a linked resource; None falls through."""

    tool: str | None = None
    preference: ToolPreference = NO_PREFERENCE  # of the tool
    plan: str | None = None
    plan_priority: Priority | None = None  # None counts as fallback where the chain has six levels
    project: str | None = None
    project_priority: Priority | None = None
    resource: str | None = None
    discovered: Resource | None = None  # the nearest devcontainer in the checkout
    has_discovery: bool = False  # `execution_env_discovery`
    default: str = ExecutionEnvironment.HOST
    plan_source: str = "plan"  # who set the plan level: plan, an option, run-default
    linked: tuple[Resource, ...] = ()  # what names can mean
    fallen: Mapping[str, str] = field(default_factory=dict)  # what did not start, and why
    owner: str = ""  # name of the project, for what is said; empty: none was made yet

    @property
    def has_six_levels(self) -> bool:
        """Whether somebody asked for the longer chain."""
        return bool(self.plan_priority or self.project_priority or self.has_discovery)


@dataclass(frozen=True, kw_only=True)
class Route:
    """Where a call goes and which level decided."""

    kind: ExecutionEnvironment
    level: str  # tool, plan, project, devcontainer, resource, default
    reason: str  # for people
    resource: str = ""  # name of the linked one that it is reached through
    is_preferred: bool = False  # another place is taken where this one does not start at first
    server: str = ""  # MCP server that has an environment of its own there

    @property
    def site(self) -> Site:
        """The place itself."""
        return Site(self.kind, self.resource, self.server)


Level = tuple[str, str | None, str]


class ExecutionEnvironmentResolver:
    """Computes the effective environment; the first level that is set wins."""

    def resolve(self, chain: Chain) -> Route:
        """Return the route for `chain`.

        Raises ContainerUnavailableError (A14), EnvironmentUnavailable or UsageError for a name
        that means no linked resource, or not one alone.
        """
        mode = chain.preference.mode
        if mode == Preference.SPECIFIC:
            target = chain.preference.target_resource
            return _route(chain, "tool", target, "the resource that the tool names")
        if mode == Preference.REQUIRED:
            return _required(chain)
        if mode == Preference.PREFERRED:
            return _preferred(chain)
        return _general(chain)


def _general(chain: Chain) -> Route:
    levels = _six(chain) if chain.has_six_levels else _four(chain)
    for level, name, reason in levels:
        if level == DEVCONTAINER and chain.discovered is not None:
            found = replace(chain, linked=(chain.discovered,))
            return _route(found, level, chain.discovered.name, reason)
        if name is not None:
            return _route(chain, level, name, reason)
    return _route(chain, "default", chain.default, "nothing is set at any level")


def _route(chain: Chain, level: str, name: str, reason: str) -> Route:
    site = site_named(name, chain.linked, project=chain.owner)
    return Route(kind=site.kind, resource=site.resource, level=level, reason=reason)


def _required(chain: Chain) -> Route:
    name = chain.tool or ExecutionEnvironment.CONTAINER
    route = _route(chain, "tool", name, "the tool requires a container")
    if _strength(route, chain) < STRENGTH[ExecutionEnvironment.CONTAINER]:
        raise UsageError(
            f"a tool requires a container, and its environment is {route.site}",
            hint="leave `execution_environment` out, or name a container",
        )
    return route


def _preferred(chain: Chain) -> Route:
    """Where the tool would rather run; else where the chain says, never weaker than `process`."""
    name = chain.tool or ExecutionEnvironment.CONTAINER
    try:
        route = _route(chain, "tool", name, "the tool prefers it")
        why = chain.fallen.get(str(route.site))
    except EnvironmentUnavailable as error:
        why = error.message
    else:
        if why is None:
            return replace(route, is_preferred=True)
    found = _general(replace(chain, tool=None))
    reason = f"{found.reason}; the tool prefers {name}: {why}"
    if _strength(found, chain) >= STRENGTH[LEAST]:
        return replace(found, reason=reason)
    return Route(kind=LEAST, level=found.level, reason=f"{reason}; never weaker than {LEAST}")


def _strength(route: Route, chain: Chain) -> int:
    """Return how strong it is there; a host that carries an environment is as strong as that."""
    found = next((each for each in chain.linked if each.name == route.resource), None)
    return STRENGTH[(found and found.carries) or route.kind]


def _four(chain: Chain) -> Iterator[Level]:
    yield "tool", chain.tool, "the tool's own setting"
    yield "plan", chain.plan, f"set on the plan by {chain.plan_source}"
    yield "project", chain.project, "the project's setting"
    yield "resource", chain.resource, "the resource's setting"


def _six(chain: Chain) -> Iterator[Level]:
    plan = ("plan", chain.plan, f"set on the plan by {chain.plan_source}")
    project = ("project", chain.project, "the project's setting")
    is_first = chain.plan_priority == Priority.OVERRIDE
    is_second = chain.project_priority == Priority.OVERRIDE
    yield "tool", chain.tool, "the tool's own setting"
    if is_first:
        yield _overriding(plan)
    if is_second:
        yield _overriding(project)
    yield DEVCONTAINER, None, "the nearest devcontainer in the checkout"
    if not is_first:
        yield plan
    yield "resource", chain.resource, "the resource's setting"
    if not is_second:
        yield project


def _overriding(level: Level) -> Level:
    name, said, reason = level
    return name, said, f"{reason}, which overrides"


def chain_of(spec: PlanSpec, tool: str = "", *, fallen: Mapping[str, str] | None = None) -> Chain:
    """Return the chain of a plan for one tool; empty: for one without a setting of its own.

    `fallen` are the preferred places that did not start, by name, with the cause. What is about
    jobs goes where commands go; tools of an MCP server go where mcp__SERVER is sent.
    """
    tool = COMMAND if tool in OF_JOBS else tool
    if tool not in {*spec.tool_environments, *spec.tool_preferences}:
        tool = family_of(tool)
    return Chain(
        tool=spec.tool_environments.get(tool),
        preference=spec.tool_preferences.get(tool, NO_PREFERENCE),
        plan=spec.environment,
        plan_priority=spec.environment_priority,
        project=spec.project_environment,
        project_priority=spec.project_priority,
        resource=spec.resource_environment,
        discovered=spec.discovered,
        has_discovery=spec.has_discovery,
        default=spec.default_environment,
        plan_source=spec.environment_source,
        linked=spec.resources,
        fallen=fallen or {},
        owner=spec.project or "",
    )


def route_of(spec: PlanSpec, tool: str = "", *, fallen: Mapping[str, str] | None = None) -> Route:
    """Return where `tool` runs in this plan and which level decided (A9); see `chain_of`."""
    route = ExecutionEnvironmentResolver().resolve(chain_of(spec, tool, fallen=fallen))
    return replace(route, server=entrusted_name(spec.mcp_servers, tool))


def sites_of(spec: PlanSpec) -> Sequence[Site]:
    """Return every place that a call of this plan could be routed to, resolved before it runs.

    Raises what `ExecutionEnvironmentResolver.resolve` does.
    """
    servers = [PREFIX + each.name for each in spec.mcp_servers if each.is_entrusted]
    own = (*spec.tool_environments, *spec.tool_preferences, *servers)
    found = {route_of(spec, tool).site: None for tool in ("", *own)}
    fallen = {str(site): "" for site in found}
    return tuple(found | {route_of(spec, tool, fallen=fallen).site: None for tool in own})


__all__ = [
    "DEVCONTAINER",
    "LEAST",
    "NO_PREFERENCE",
    "Chain",
    "ExecutionEnvironmentResolver",
    "Route",
    "chain_of",
    "route_of",
    "sites_of",
]
