"""Settings as files and variables say them, each None where nothing is said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.domain.action import Rule, place_at, rules_of, tools_of
from patchyard.domain.analysis_settings import MapSettings, map_settings_of
from patchyard.domain.automation import known_profile
from patchyard.domain.ceilings import Budget, budget_of
from patchyard.domain.checkpoint import Trigger
from patchyard.domain.environment import Priority
from patchyard.domain.environment_limits import KEY, EnvironmentLimits, environment_limits_of
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.faults import Fault, check_keys, kind_of
from patchyard.domain.gate_settings import Gates, gates_of
from patchyard.domain.keeping import Keep, keep_of
from patchyard.domain.languages import BASE, IMAGES
from patchyard.domain.limit_settings import LimitSettings, limits_of
from patchyard.domain.mcp import McpServer
from patchyard.domain.mcp_settings import mcp_servers_of
from patchyard.domain.model_names import split_name
from patchyard.domain.network_settings import NetworkSettings, network_of, secrets_of
from patchyard.domain.pooling import Pooling, pooling_of
from patchyard.domain.preference import ToolSetting
from patchyard.domain.project import context_value
from patchyard.domain.queue import Limits
from patchyard.domain.safety import SafetyProfile, parse_safety
from patchyard.domain.slots import slots_of
from patchyard.domain.texts import text_of, texts_of
from patchyard.domain.triggers import triggers_of

SHARES = ("tree", "lockfiles")
DESTINATIONS = ("none", "worktree", "branch", "merge", "patch")

# Known, and without effect in this version: said so rather than passed over.
RESERVED = ("adapters", "forges", "hosts", "providers")
IN_MODELS = (
    "providers, and which role has which model, stand in models.yaml beside your config.yaml"
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One place's say."""

    agent: str | None = None
    allow_paths: tuple[str, ...] | None = None
    analysis: MapSettings | None = None  # what is read of repositories before the work
    apply: str | None = None
    approvals: tuple[str, ...] | None = None  # phases, categories, tools to be asked for
    automation_profile: str | None = None
    budget: Budget | None = None  # shared limits: of all plans, of a day, of a project
    checkpoints: tuple[Trigger, ...] | None = None  # when they are made
    clone_secrets: tuple[str, ...] | None = None  # NAME@HOST, for repositories by address
    environment_limits: EnvironmentLimits | None = None  # what each environment may use
    execution_env_discovery: bool | None = None
    execution_env_priority: Priority | None = None
    execution_environment: str | None = None  # a kind, or a linked resource's name
    gates: Gates | None = None  # by name; all places together
    images: Mapping[str, str] | None = None  # of containers that name none, by language
    include: tuple[str, ...] | None = None  # ignored folders that come along read-only
    invariants: tuple[Rule, ...] | None = None
    keep: Keep | None = None  # how long, and how much room must stay free
    limits: LimitSettings | None = None
    mcp_servers: Mapping[str, McpServer] | None = None  # whose tools are offered beside ours
    model: str | None = None
    mounts: tuple[str, ...] | None = None
    network: NetworkSettings | None = None  # what may be reached
    pool: Pooling | None = None  # how many places wait in workers, and how long
    protected_paths: tuple[str, ...] | None = None
    role: str | None = None
    roles: tuple[str, ...] | None = None  # the one who works, then who looks at the result
    safety: SafetyProfile | None = None
    secrets: tuple[str, ...] | None = None  # NAME@HOST
    setup: tuple[str, ...] | None = None
    setup_share: str | None = None  # over which trees a setup layer is shared
    slots: Limits | None = None  # how many plans workers carry out at once
    tools: Mapping[str, ToolSetting] | None = None
    validate: tuple[str, ...] | None = None
    variables: Mapping[str, str] | None = None


KEYS = tuple(Settings.__dataclass_fields__)
TEXTS = frozenset({"agent", "automation_profile", "model", "role"})
LISTS = frozenset(
    {
        *("allow_paths", "approvals", "include", "mounts", "protected_paths", "roles", "setup"),
        "validate",
    }
)


def parse_settings(value: Any) -> Settings:
    """Return the settings that plain data describes. Raises Fault with the place."""
    for name in RESERVED:  # named by itself, so that the known keys are those that can be set
        if isinstance(value, Mapping) and name in value:
            hint = IN_MODELS if name == "providers" else "take it out"
            raise Fault((name,), f"{name!r} cannot be set in this version", hint=hint)
    body = check_keys({} if value is None else value, (), KEYS)
    return Settings(**{name: _read(name, body) for name in body if body[name] is not None})


def _read(name: str, body: Mapping[str, Any]) -> Any:
    if name in TEXTS:
        return _text(name, text_of(body, name, ()))
    if name == "roles" and isinstance(body[name], Mapping):
        raise Fault((name,), "must be a list of texts, not a mapping", hint=IN_MODELS)
    if name in LISTS:
        return texts_of(body, name)
    if name in {"execution_env_discovery", "execution_env_priority"}:
        return context_value(name, body[name])
    return _PARSERS[name](body[name])


# Which agents and roles there are is others' to say; empty text is nothing said.
_CHECKS: Mapping[str, Callable[[str], object]] = {
    "automation_profile": known_profile,
    "model": split_name,
}


def _text(key: str, said: str) -> str:
    try:
        if said and key in _CHECKS:
            _CHECKS[key](said)
    except UsageError as error:
        raise Fault.at((key,), error) from error
    return said


def _apply(value: Any) -> str:
    if value not in DESTINATIONS:
        error = UnknownName.among("destination", str(value), DESTINATIONS)
        raise Fault.at(("apply",), error) from error
    return str(value)


def _share(value: Any) -> str:
    if value not in SHARES:
        error = UnknownName.among("way to share setup", str(value), SHARES)
        raise Fault.at(("setup_share",), error) from error
    return str(value)


def _variables(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise Fault(("variables",), f"must be a mapping of names, not {kind_of(value)}")
    return {name: text_of(value, name, ("variables",)) for name in value}


def _images(value: Any) -> Mapping[str, str]:
    known = tuple(sorted((BASE, *filter(None, IMAGES))))
    body = check_keys(value, ("images",), known)
    return {name: text_of(body, name, ("images",)) for name in body}


_PARSERS: Mapping[str, Any] = {
    "analysis": lambda value: map_settings_of(value, ("analysis",)),
    "apply": _apply,
    "budget": lambda value: budget_of(value, ("budget",)),
    "clone_secrets": lambda value: secrets_of(value, ("clone_secrets",)),
    "checkpoints": lambda value: triggers_of(value, ("checkpoints",)),
    KEY: lambda value: environment_limits_of(value, (KEY,)),
    "execution_environment": lambda value: place_at(value, ("execution_environment",)),
    "gates": lambda value: gates_of(value, ("gates",)),
    "images": _images,
    "invariants": lambda value: rules_of(value, ("invariants",)),
    "keep": lambda value: keep_of(value, ("keep",)),
    "limits": lambda value: limits_of(value, ("limits",)),
    "mcp_servers": lambda value: mcp_servers_of(value, ("mcp_servers",)),
    "network": lambda value: network_of(value, ("network",)),
    "pool": lambda value: pooling_of(value, ("pool",)),
    "safety": lambda value: parse_safety(value, ("safety",)),
    "secrets": lambda value: secrets_of(value, ("secrets",)),
    "setup_share": _share,
    "slots": lambda value: slots_of(value, ("slots",)),
    "tools": lambda value: tools_of(value, ("tools",)),
    "variables": _variables,
}

__all__ = [
    "DESTINATIONS",
    "KEYS",
    "LISTS",
    "RESERVED",
    "SHARES",
    "TEXTS",
    "Settings",
    "parse_settings",
]
