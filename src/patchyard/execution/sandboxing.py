"""What a sandbox is started with (C8), alone and for a whole task (C15): one record for both."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from patchyard.domain.environment import ExecutionEnvironment, Limits, Mount, parse_kind
from patchyard.domain.environment_limits import (
    MEASURES,
    EnvironmentLimits,
    environment_limits_of,
    given,
    limits_for,
)
from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault, unplaced
from patchyard.domain.network_settings import NetworkSettings, network_of
from patchyard.domain.resource import CONTAINER_INSTANCE, SSH_HOST, VM_IMAGE, Resource
from patchyard.execution.arguments import require_sandbox
from patchyard.intake import Asked
from patchyard.intake_network import HOST_HINT

OWN = "sandbox"  # what the place of one task alone is called
RECORD = "SandboxConfig"
CONTAINER, VM, SSH = (
    ExecutionEnvironment.CONTAINER,
    ExecutionEnvironment.VM,
    ExecutionEnvironment.SSH,
)
OF_IMAGES = (CONTAINER, ExecutionEnvironment.DEVCONTAINER, VM)


@dataclass(frozen=True, kw_only=True)
class SandboxConfig:
    """What a sandbox is started with: alone, or for a whole task.

    A task has a workspace of its own, so that `workspace` and `is_writable` are of sandboxes
    alone; `network` and `secrets` are of tasks, whose plan has a gateway.
    """

    kind: str = "process"  # a kind or an alias: docker, process, vm, host, mock, ...
    workspace: str = ""  # folder that is worked in, at this very path; empty: one of its own
    is_writable: bool = True
    image: str = ""  # of a container; of a machine the folder with its kernel
    address: str = ""  # of an SSH host: [user@]host[:port]
    variables: Mapping[str, str] = field(default_factory=dict)  # all that runs inside can read them
    limits: Limits | EnvironmentLimits = field(default_factory=Limits)
    mounts: tuple[Mount | str, ...] = ()  # further places: PATH[:ro|rw], or a Mount
    network: NetworkSettings = field(default_factory=NetworkSettings)  # which hosts, how much
    secrets: tuple[str, ...] = ()  # NAME@HOST: a variable of the engine, used at that host alone


def kind_for(config: SandboxConfig) -> ExecutionEnvironment:
    """Return the kind, when what is said beside it fits. Raises UnknownName, UsageError."""
    require_sandbox(RECORD, config)
    kind = parse_kind(config.kind)
    if config.image and kind not in OF_IMAGES:
        raise UsageError(f"{kind} takes no image, and {RECORD}.image is {config.image}", hint=OUT)
    if config.address and kind != SSH:
        said = f"{kind} takes no address, and {RECORD}.address is {config.address}"
        raise UsageError(said, hint=OUT)
    return kind


OUT = "leave it out, or name another kind"


def bounds_of(config: SandboxConfig) -> Limits:
    """Return what a sandbox may use. Raises UsageError."""
    if isinstance(config.limits, Limits):
        return config.limits
    return limits_for(_checked(config.limits))


def asked_sandbox(asked: Asked, config: SandboxConfig) -> Asked:
    """Return `asked` with a task's sandbox in it. Raises UnknownName, UsageError."""
    kind = kind_for(config)
    for name, is_said in (
        ("workspace", bool(config.workspace)),
        ("is_writable", not config.is_writable),
    ):
        if is_said:
            raise UsageError(
                f"{RECORD}.{name} is for a sandbox alone: a task has a workspace of its own",
                hint="leave it out; `Task.repository` says what is worked on",
            )
    own = _place(kind, config)
    limits = _checked(_said(config.limits))
    return replace(
        asked,
        kind=own.name if own else str(kind),
        own=own,
        variables=tuple(f"{name}={value}" for name, value in config.variables.items()),
        limits=tuple(f"{name}={value}" for name, value in given(limits).items()),
        mounts=tuple(map(mount_word, config.mounts)),
        network=_network(config.network),
        secrets=config.secrets,
    )


def _place(kind: ExecutionEnvironment, config: SandboxConfig) -> Resource | None:
    """Return the place that the record describes; None: the kind says enough, or a linked one."""
    if kind == CONTAINER and config.image:
        return Resource(name=OWN, type=CONTAINER_INSTANCE, image=config.image)
    if kind == VM:
        return Resource(name=OWN, type=VM_IMAGE, image=config.image)
    if kind == SSH and config.address:
        return Resource(name=OWN, type=SSH_HOST, address=config.address)
    if config.image:
        said = f"a task's {kind} has the image that its file names, and {RECORD}.image is another"
        raise UsageError(said, hint="leave it out, or say kind='container'")
    return None


def _said(limits: Limits | EnvironmentLimits) -> EnvironmentLimits:
    """Return the limits that a record says: what differs from the usual. Raises UsageError."""
    if isinstance(limits, EnvironmentLimits):
        return limits
    usual, said = Limits(), {}
    for each in fields(EnvironmentLimits):
        name = MEASURES[each.name].field
        value = getattr(limits, name)
        if value == getattr(usual, name):
            continue
        if value is None:
            raise UsageError(
                f"{RECORD}.limits: {name} is None, and a task is always bounded there",
                hint="say a number, or leave it out",
            )
        said[each.name] = value
    return EnvironmentLimits(**said)


def _checked(limits: EnvironmentLimits) -> EnvironmentLimits:
    try:
        return environment_limits_of(given(limits), ("limits",))
    except Fault as fault:
        raise unplaced(fault, f"{RECORD}: {fault.message}") from fault


def mount_word(mount: Mount | str) -> str:
    """Return a mount as `--mount` says it. Raises UsageError for one that lies elsewhere inside."""
    if isinstance(mount, str):
        return mount
    if mount.target != mount.source:
        raise UsageError(
            f"{RECORD}.mounts: {mount.source} is to appear at {mount.target}",
            hint="a mount appears at its own path: let target be source",
        )
    return f"{mount.source}:{'rw' if mount.is_writable else 'ro'}"


def _network(network: NetworkSettings) -> NetworkSettings | None:
    said = {name: value for name, value in vars(network).items() if value is not None}
    if isinstance(network.allow_hosts, tuple):
        said["allow_hosts"] = list(network.allow_hosts)
    try:
        return network_of(said, ("network",)) if said else None
    except Fault as fault:
        refused = unplaced(fault, f"{RECORD}: {fault.message}")
        refused.hint = refused.hint or HOST_HINT
        raise refused from fault


__all__ = [
    "OF_IMAGES",
    "OUT",
    "OWN",
    "RECORD",
    "EnvironmentLimits",
    "Limits",
    "Mount",
    "NetworkSettings",
    "SandboxConfig",
    "asked_sandbox",
    "bounds_of",
    "kind_for",
    "mount_word",
]
