"""Kinds of environment, how strong each is, and what one is started with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from patchyard.domain.errors import UnknownName


class ExecutionEnvironment(StrEnum):
    """Where work happens (A1, and F2.1's further kinds)."""

    HOST = "host"
    PROCESS = "process"
    CONTAINER = "container"
    DEVCONTAINER = "devcontainer"
    VM = "vm"
    POD = "pod"
    SSH = "ssh"
    MOCK = "mock"


class Priority(StrEnum):
    """Whether an environment setting gives way to a discovered devcontainer (A+)."""

    FALLBACK = "fallback"
    OVERRIDE = "override"


ALIASES: Mapping[str, ExecutionEnvironment] = {
    "local": ExecutionEnvironment.HOST,
    "remote": ExecutionEnvironment.POD,
    "docker": ExecutionEnvironment.CONTAINER,
}

STRENGTH: Mapping[ExecutionEnvironment, int] = {
    ExecutionEnvironment.MOCK: 0,
    ExecutionEnvironment.HOST: 0,
    ExecutionEnvironment.SSH: 0,
    ExecutionEnvironment.PROCESS: 1,
    ExecutionEnvironment.CONTAINER: 2,
    ExecutionEnvironment.DEVCONTAINER: 2,
    ExecutionEnvironment.POD: 2,
    ExecutionEnvironment.VM: 4,
}


HERE = (
    ExecutionEnvironment.CONTAINER,
    ExecutionEnvironment.HOST,
    ExecutionEnvironment.PROCESS,
)
"""Those that this version can start; `registry.py` holds the adapter of each."""


def no_such_kind(text: str) -> UnknownName:
    """Return the refusal of a kind that this version cannot start; it lists those it can."""
    names = [*(str(kind) for kind in ExecutionEnvironment), *ALIASES]
    unknown = UnknownName.among("execution environment", text, names)
    is_later = text.strip().lower() in names
    message = f"the environment {text!r} is not in this version" if is_later else unknown.message
    here = [str(kind) for kind in HERE]
    details = {"name": text, "known": here}
    hint = f"known: {', '.join(here)} (container: where a resource is linked)"
    return UnknownName(message, hint=hint, details=details)


def require_offered(kind: ExecutionEnvironment) -> ExecutionEnvironment:
    """Return a kind that may be set (A13, A14).

    Raises UnknownName.
    """
    if kind in HERE:
        return kind
    raise no_such_kind(str(kind))


def parse_kind(text: str) -> ExecutionEnvironment:
    """Return the kind that `text` names, aliases included. Raises UnknownName (A15)."""
    name = text.strip().lower()
    if name in ALIASES:
        return ALIASES[name]
    try:
        return ExecutionEnvironment(name)
    except ValueError:
        raise no_such_kind(text) from None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one environment. None means not bounded by us."""

    memory_bytes: int | None = 4 * 1024**3
    processes: int | None = 1024
    open_files: int | None = 4096
    file_bytes: int | None = 8 * 1024**3  # largest single file
    cpu_seconds: int | None = None  # per process
    output_bytes: int = 16 * 1024 * 1024  # kept of one call, per stream


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A place of the host that the environment sees."""

    source: str  # absolute path on the host
    target: str  # absolute path inside
    is_writable: bool = False


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec:
    """What an environment is started with. Holds no secret."""

    plan_id: str
    purpose: str  # strategize, execute, setup, proof, shell, check
    workspace: Mount  # where the work tree lies, and the one path it appears at
    image: str = ""  # of a container or VM
    mounts: tuple[Mount, ...] = ()  # further places, read-only unless said
    variables: Mapping[str, str] = field(default_factory=dict)  # agent-readable, by definition
    path: tuple[str, ...] = ()  # directories put before the toolchains in PATH
    limits: Limits = field(default_factory=Limits)
    orphan_grace_s: float = 60.0  # how long it lives without an engine
    agent_uid: int | None = None  # None: the engine's own, or the configured one under root
    agent_gid: int | None = None


@dataclass(frozen=True, kw_only=True)
class EnvironmentHandle:
    """How to find a started environment again, from another process too. Journalled."""

    environment_id: str  # ULID
    kind: ExecutionEnvironment
    workspace_path: str  # absolute path of the work tree as seen inside
    details: Mapping[str, Any] = field(default_factory=dict)  # socket, pid, pid start time, ...


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Whether a kind really starts here, and if not, why and what cures it."""

    kind: ExecutionEnvironment
    is_ready: bool
    cause: str = ""  # empty when ready
    cure: str = ""  # one command or one sentence
    facts: Mapping[str, Any] = field(default_factory=dict)  # version, visible paths, ...


__all__ = [
    "ALIASES",
    "HERE",
    "STRENGTH",
    "EnvironmentHandle",
    "EnvironmentSpec",
    "ExecutionEnvironment",
    "Limits",
    "Mount",
    "Priority",
    "Readiness",
    "no_such_kind",
    "parse_kind",
    "require_offered",
]
