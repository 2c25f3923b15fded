"""Projects: a repository, what is set for it, and the resources linked to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.domain.action import place_at, profile_at
from patchyard.domain.ceilings import BUDGET_KEYS, PROJECT, Budget, budget_of
from patchyard.domain.environment import Priority
from patchyard.domain.environment_limits import KEY, EnvironmentLimits, environment_limits_of
from patchyard.domain.faults import Fault, check_keys, kind_of
from patchyard.domain.gate_settings import Gates, gates_of
from patchyard.domain.limit_settings import LimitSettings, limits_of
from patchyard.domain.mcp import McpServer
from patchyard.domain.mcp_settings import mcp_servers_of
from patchyard.domain.network_settings import NetworkSettings, network_of, secrets_of
from patchyard.domain.resource import Resource
from patchyard.domain.texts import texts_of

CONTEXT_KEYS = (
    "automation_profile",
    "budget",
    KEY,
    "execution_env_discovery",
    "execution_env_priority",
    "execution_environment",
    "gates",
    "limits",
    "mcp_servers",
    "network",
    "protected_paths",
    "secrets",
    "setup",
    "validate",
)


@dataclass(frozen=True, kw_only=True)
class Project:
    """A repository under a name."""

    name: str
    repository: str  # absolute path of the checkout
    execution_environment: str | None = None  # a kind or a resource; None: not set (A2, A5)
    execution_env_priority: Priority | None = None
    execution_env_discovery: bool | None = None
    setup: tuple[str, ...] | None = None  # None: not said
    validate: tuple[str, ...] | None = None
    gates: Gates | None = None
    protected_paths: tuple[str, ...] | None = None
    network: NetworkSettings | None = None
    secrets: tuple[str, ...] | None = None  # NAME@HOST
    limits: LimitSettings | None = None
    environment_limits: EnvironmentLimits | None = None  # what its environments may use
    budget: Budget | None = None  # of all its plans together
    automation_profile: str | None = None
    mcp_servers: Mapping[str, McpServer] | None = None  # by name
    resources: tuple[str, ...] = ()  # names of linked ones
    is_implicit: bool = False  # made for a checkout by itself

    def linked(self, resources: Mapping[str, Resource]) -> tuple[Resource, ...]:
        """Return the linked resources that there still are."""
        return tuple(resources[name] for name in self.resources if name in resources)


def context_value(key: str, value: Any) -> Any:
    """Return `value` as the project keeps it under `key`. Raises Fault."""
    check_keys({key: value}, (), CONTEXT_KEYS)
    if value is None:
        return None
    return _PARSERS[key](key, value) if key in _PARSERS else texts_of({key: value}, key)


def _priority(key: str, value: Any) -> Priority:
    if value not in list(Priority):  # it may be a list
        raise Fault((key,), f"{value!r} is neither 'fallback' nor 'override'")
    return Priority(value)


def _switch(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise Fault((key,), f"must be true or false, not {kind_of(value)}")
    return value


def _budget(key: str, value: Any) -> Budget:
    own = tuple(name for name in BUDGET_KEYS if name.startswith(PROJECT))
    return budget_of(value, (key,), keys=own)


_PARSERS: Mapping[str, Callable[[str, Any], Any]] = {
    "automation_profile": lambda key, value: profile_at(value, (key,)),
    "budget": _budget,
    KEY: lambda key, value: environment_limits_of(value, (key,)),
    "execution_env_discovery": _switch,
    "execution_env_priority": _priority,
    "execution_environment": lambda key, value: place_at(value, (key,)),
    "gates": lambda key, value: gates_of(value, (key,)),
    "limits": lambda key, value: limits_of(value, (key,)),
    "mcp_servers": lambda key, value: mcp_servers_of(value, (key,)),
    "network": lambda key, value: network_of(value, (key,)),
    "secrets": lambda key, value: secrets_of(value, (key,)),
}


__all__ = [
    "CONTEXT_KEYS",
    "Project",
    "context_value",
]
