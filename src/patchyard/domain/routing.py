"""Where a tool call runs: the chain tool > plan > project > resource > default (A7, F2.3, F2.4)."""

from dataclasses import dataclass

from patchyard.domain.environment import ExecutionEnvironment


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What is set at each level; None is "not set" and falls through."""

    tool: ExecutionEnvironment | None = None
    plan: ExecutionEnvironment | None = None
    project: ExecutionEnvironment | None = None
    resource: ExecutionEnvironment | None = None
    default: ExecutionEnvironment = ExecutionEnvironment.HOST
    plan_source: str = "plan"  # who set the plan level: plan, an option, run-default


@dataclass(frozen=True, kw_only=True)
class Route:
    """Which kind was chosen and which level decided."""

    kind: ExecutionEnvironment
    level: str  # tool, plan, project, resource, default
    reason: str  # for people


class ExecutionEnvironmentResolver:
    """Computes the effective environment; the first level that is set wins (A6, A7)."""

    def resolve(self, chain: Chain) -> Route:
        """Return the route for `chain`. Pure."""
        levels = (
            ("tool", chain.tool, "the tool's own setting"),
            ("plan", chain.plan, f"set on the plan by {chain.plan_source}"),
            ("project", chain.project, "the project's setting"),
            ("resource", chain.resource, "the resource's setting"),
        )
        for level, kind, reason in levels:
            if kind is not None:
                return Route(kind=kind, level=level, reason=reason)
        return Route(kind=chain.default, level="default", reason="nothing is set at any level")


__all__ = ["Chain", "ExecutionEnvironmentResolver", "Route"]
