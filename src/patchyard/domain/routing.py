"""Where a tool call runs, and which level of the chain decided. Pure.

Four levels as they come: tool, plan, project, resource, and a default below them (A6, A7). Where a
priority is set or discovery is on, six: what overrides goes first, what falls back gives way to a
devcontainer (A+, F2.2 to F2.4, F2.18).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from patchyard.domain.environment import ExecutionEnvironment, Priority
from patchyard.domain.plan import PlanSpec


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What is set at each level; None is "not set" and falls through."""

    tool: ExecutionEnvironment | None = None
    plan: ExecutionEnvironment | None = None
    plan_priority: Priority | None = None  # None counts as fallback where the chain has six levels
    project: ExecutionEnvironment | None = None
    project_priority: Priority | None = None
    resource: ExecutionEnvironment | None = None
    discovered: ExecutionEnvironment | None = None  # of the nearest devcontainer in the checkout
    has_discovery: bool = False  # `execution_env_discovery`
    default: ExecutionEnvironment = ExecutionEnvironment.HOST
    plan_source: str = "plan"  # who set the plan level: plan, an option, run-default

    @property
    def has_six_levels(self) -> bool:
        """Whether somebody asked for the longer chain."""
        return bool(self.plan_priority or self.project_priority or self.has_discovery)


@dataclass(frozen=True, kw_only=True)
class Route:
    """Which kind was chosen and which level decided."""

    kind: ExecutionEnvironment
    level: str  # tool, plan, project, devcontainer, resource, default
    reason: str  # for people


Level = tuple[str, ExecutionEnvironment | None, str]


class ExecutionEnvironmentResolver:
    """Computes the effective environment; the first level that is set wins."""

    def resolve(self, chain: Chain) -> Route:
        """Return the route for `chain`."""
        levels = _six(chain) if chain.has_six_levels else _four(chain)
        for level, kind, reason in levels:
            if kind is not None:
                return Route(kind=kind, level=level, reason=reason)
        return Route(kind=chain.default, level="default", reason="nothing is set at any level")


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
    yield "devcontainer", chain.discovered, "the nearest devcontainer in the checkout"
    if not is_first:
        yield plan
    yield "resource", chain.resource, "the resource's setting"
    if not is_second:
        yield project


def _overriding(level: Level) -> Level:
    name, kind, reason = level
    return name, kind, f"{reason}, which overrides"


def chain_of(spec: PlanSpec, tool: str = "") -> Chain:
    """Return the chain of a plan for one tool; empty: for one without a setting of its own."""
    return Chain(
        tool=spec.tool_environments.get(tool),
        plan=spec.environment,
        plan_priority=spec.environment_priority,
        project=spec.project_environment,
        project_priority=spec.project_priority,
        resource=spec.resource_environment,
        has_discovery=spec.has_discovery,
        default=spec.default_environment,
        plan_source=spec.environment_source,
    )


def route_of(spec: PlanSpec, tool: str = "") -> Route:
    """Return where `tool` runs in this plan and which level decided (A9)."""
    return ExecutionEnvironmentResolver().resolve(chain_of(spec, tool))


__all__ = ["Chain", "ExecutionEnvironmentResolver", "Route", "chain_of", "route_of"]
