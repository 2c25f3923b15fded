"""Kinds of environment, how strong each is, and what one is started with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from patchyard.domain.errors import UnknownName, UsageError, listing, shortened


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


COUNTED, TASKS = "counted", "tasks"
"""Among a handle's details: by limit, what is counted where the name does not say it; and how many
of this machine's tasks a place in gVisor may have."""

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

GVISOR = "runsc"
"""The container runtime that puts a kernel of its own, in user space, around a container."""
GVISOR_STRENGTH = 3


def is_gvisor(runtime: str) -> bool:
    """Whether a runtime of that name is gVisor: `runsc`, or `runsc-` and a word of one's own."""
    return runtime == GVISOR or runtime.startswith(f"{GVISOR}-")


def strength_of(kind: ExecutionEnvironment, runtime: str = "") -> int:
    """Return how strong a place of a kind is; `runtime` is that of a container."""
    if kind == ExecutionEnvironment.CONTAINER and is_gvisor(runtime):
        return GVISOR_STRENGTH
    return STRENGTH[kind]


def walls_word(kind: ExecutionEnvironment, runtime: str = "") -> str:
    """Return the word that recordings keep for how strong a place is; see `strength_of_word`."""
    return f"{kind}/{runtime}" if strength_of(kind, runtime) != STRENGTH[kind] else str(kind)


def strength_of_word(text: str) -> int:
    """Return how strong a place of that word is. Raises UnknownName."""
    kind, _, runtime = text.partition("/")
    return strength_of(parse_kind(kind), runtime)


HERE = (
    ExecutionEnvironment.CONTAINER,
    ExecutionEnvironment.DEVCONTAINER,
    ExecutionEnvironment.HOST,
    ExecutionEnvironment.MOCK,
    ExecutionEnvironment.PROCESS,
    ExecutionEnvironment.SSH,
    ExecutionEnvironment.VM,
)
"""Those that this version can start; `registry.py` holds the adapter of each."""


IN_PLACE = frozenset({ExecutionEnvironment.HOST, ExecutionEnvironment.MOCK})
"""Those that show this machine as it is: work happens where the workspace really lies, and what
runs there reaches all that its user may."""


AWAY = frozenset({ExecutionEnvironment.POD, ExecutionEnvironment.SSH, ExecutionEnvironment.VM})
"""Those that work in a copy of the workspace, which the engine's machine does not see."""


def no_such_kind(text: str, *, linked: Iterable[str] = ()) -> UnknownName:
    """Return the refusal of what this version cannot start; it lists what it can.

    `linked` are the names of resources that would do as well.
    """
    startable = [alias for alias, kind in ALIASES.items() if kind in HERE]
    names = [*(str(kind) for kind in HERE), *startable, *linked]
    message = UnknownName.among("execution environment", text, names).message
    if (kind := kind_of_word(text)) is not None:
        also = [alias for alias, meant in ALIASES.items() if meant == kind and alias != text]
        also_named = f" (also written {also[0]!r})" if also else ""
        message = f"the environment {text!r}{also_named} is not in this version"
    here, own = [str(kind) for kind in HERE], sorted(linked)
    named = f"; linked resources: {listing(own)}" if own else ""
    hint = (
        f"known: {', '.join(here)} (or the name of a linked resource;"
        f" container, devcontainer, ssh and vm need one){named}"
    )
    details = {"name": shortened(text), "known": [*here, *own]}
    return UnknownName(message, hint=hint, details=details)


def parse_kind(text: str) -> ExecutionEnvironment:
    """Return the kind that `text` names, aliases included. Raises UnknownName (A15)."""
    kind = kind_of_word(text)
    if kind is None:
        raise no_such_kind(text)
    return kind


def kind_of_word(text: str) -> ExecutionEnvironment | None:
    """Return the kind that `text` names, aliases included; None for another word."""
    name = text.strip().lower()
    if name in ALIASES:
        return ALIASES[name]
    try:
        return ExecutionEnvironment(name)
    except ValueError:
        return None


def startable_kind(text: str) -> ExecutionEnvironment | None:
    """Return the kind that `text` names, aliases included; None for another word.

    Raises UnknownName, by the word, for a kind that this version cannot start.
    """
    kind = kind_of_word(text)
    if kind is not None and kind not in HERE:
        raise no_such_kind(text)
    return kind


def place_named(text: str) -> str:
    """Return a setting of where work happens as it is kept: a kind, or a resource's name (A13).

    The word for a kind that this version cannot start stays as it was written, so that it is named
    so. Which resources there are shows when a plan is made. Raises UnknownName for no word at all.
    """
    kind = kind_of_word(text)
    if kind is None and not text.strip():
        raise no_such_kind(text)
    return str(kind) if kind in HERE else text.strip()


@dataclass(frozen=True)
class Site:
    """One place that calls are routed to."""

    kind: ExecutionEnvironment
    resource: str = ""  # name of the linked one it is reached through; empty: it needs none
    server: str = ""  # MCP server that has an environment of its own there; empty: the plan's

    def __str__(self) -> str:
        """Return what a person would call it."""
        return self.resource or str(self.kind)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one environment. None means not bounded by us."""

    cpus: float | None = None  # processors at once
    memory_bytes: int | None = 4 * 1024**3
    processes: int | None = 1024
    open_files: int | None = 4096
    file_bytes: int | None = 8 * 1024**3  # largest single file
    cpu_seconds: float | None = None  # of one command with all that it starts
    disk_bytes: int | None = 16 * 1024**3  # by which the workspace may grow
    temporary_bytes: int = 2 * 1024**3  # of each folder that lies in memory
    wall_s: float | None = None  # of one command, whatever time-out it asks for
    network_bytes: int | None = None  # through the gateways, both ways
    connections: int | None = None  # through the gateways, at once
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
    server: str = ""  # MCP server whose own it is; empty: the plan's
    workspace: Mount  # where the work tree lies, and the one path it appears at
    resource: str = ""  # name of the linked one that it is reached through
    image: str = ""  # of a container or VM
    runtime: str = ""  # of a container, as its engine names it; empty: that engine's default
    address: str = ""  # of an SSH host, as OpenSSH's configuration names it: [user@]host[:port]
    transport: str = ""  # `ssh`: over SSH also where the host is `localhost` (F2.20)
    carries: ExecutionEnvironment | None = None  # what an SSH host runs it in; None: in nothing
    written: str = ""  # host folder of what is written to the workspace; empty: the workspace
    mounts: tuple[Mount, ...] = ()  # further places, read-only unless said
    variables: Mapping[str, str] = field(default_factory=dict)  # agent-readable, by definition
    user: str = ""  # what the agent is called inside; empty: agent
    commands: tuple[str, ...] = ()  # run there once it is up, before any call
    path: tuple[str, ...] = ()  # directories put before the toolchains in PATH
    limits: Limits = field(default_factory=Limits)
    orphan_grace_s: float = 60.0  # how long it lives without an engine
    agent_uid: int | None = None  # None: the engine's own, or the configured one under root
    agent_gid: int | None = None
    is_owners: bool = False  # file operations alone, as the workspace's owner; kind `host` alone


@dataclass(frozen=True, kw_only=True)
class EnvironmentHandle:
    """How to find a started environment again, from another process too. Journalled."""

    environment_id: str  # ULID
    kind: ExecutionEnvironment
    workspace_path: str  # absolute path of the work tree as seen inside
    details: Mapping[str, Any] = field(default_factory=dict)  # socket, pid, pid start time, ...
    resource: str = ""  # name of the linked one that it is reached through
    server: str = ""  # MCP server whose own it is; empty: the plan's

    @property
    def site(self) -> Site:
        """Where calls are routed that come to it."""
        return Site(self.kind, self.resource, self.server)


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Whether a kind really starts here, and if not, why and what cures it."""

    kind: ExecutionEnvironment
    is_ready: bool
    cause: str = ""  # empty when ready
    cure: str = ""  # one command or one sentence
    facts: Mapping[str, Any] = field(default_factory=dict)  # version, visible paths, ...


def require_strength(name: str, recorded_in: str, here: str) -> None:
    """Raise UsageError where a recording would be played back behind weaker walls."""
    if strength_of_word(here) >= strength_of_word(recorded_in):
        return
    raise UsageError(
        f"{name} was recorded in {recorded_in}, and {here} is weaker than that",
        hint=f"play it back with `--in {recorded_in}`, or in a stronger kind",
        details={"recorded_in": recorded_in, "environment": here},
    )


__all__ = [
    "ALIASES",
    "AWAY",
    "COUNTED",
    "GVISOR",
    "GVISOR_STRENGTH",
    "HERE",
    "IN_PLACE",
    "STRENGTH",
    "TASKS",
    "EnvironmentHandle",
    "EnvironmentSpec",
    "ExecutionEnvironment",
    "Limits",
    "Mount",
    "Priority",
    "Readiness",
    "Site",
    "is_gvisor",
    "kind_of_word",
    "no_such_kind",
    "parse_kind",
    "place_named",
    "require_strength",
    "startable_kind",
    "strength_of",
    "strength_of_word",
    "walls_word",
]
