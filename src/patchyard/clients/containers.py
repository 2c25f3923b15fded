"""What a container of ours is made with, as data. Pure."""

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import normpath
from typing import Any

from patchyard.clients.carried import CarriedPython
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.overmounts import refuse_overmounts
from patchyard.clients.rlimits import resource_limits
from patchyard.clients.seccomp import filter_program
from patchyard.clients.toolbox_options import ToolboxOptions, bootstrap
from patchyard.clients.walls import READ_ONLY_VARIABLES, TOOLBOX_PLACE, free_home
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Limits,
    Mount,
    is_gvisor,
)
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.toolbox import inside

LISTEN_FD = 3
PASSED_AT = f"{TOOLBOX_PLACE}/pass.sock"
PYTHON_PLACE = f"{TOOLBOX_PLACE}/python"
LOG_BYTES = "64k"
IMAGE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n"
AGENT = "agent"
TAKEN = ("root", "nobody", "nogroup")
GROUP = "root:x:0:\nnogroup:x:65534:\n"
SENTRY_TASKS, TASKS_EACH = 128, 4
"""What gVisor has of this machine's tasks: for itself, and for each process inside."""
NANO = 1_000_000_000  # the engine counts processors so
LABEL = "patchyard.environment"
LABEL_PLAN = "patchyard.plan"


@dataclass(frozen=True, kw_only=True)
class Confined:
    """What is asked of the engine: the body of its `containers/create`."""

    config: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)  # of commands; told to the toolbox
    is_podman: bool = False  # of whom

    @property
    def host(self) -> Mapping[str, Any]:
        """The walls among it."""
        found: Mapping[str, Any] = self.config["HostConfig"]
        return found


@dataclass(frozen=True, kw_only=True)
class Equipped:
    """What a container of ours is given beside its image; paths out here."""

    toolbox: str  # folder of its code
    python: CarriedPython  # that runs it
    passing: str  # socket over which the listening one is handed in; empty: none can be
    is_podman: bool = False  # whose words differ from Docker's in a few places
    etc: Mapping[str, str] = field(default_factory=dict)  # files of /etc, by name
    profile: str = ""  # of system calls, as the engine takes it; empty: the engine's own
    processors: int = field(default_factory=lambda: os.cpu_count() or 1)  # of its machine
    replica: str = ""  # where the toolbox can write to a workspace that is a read-only replica
    is_watched: bool = False  # whether somebody looks at what its commands use


def confined(
    spec: EnvironmentSpec,
    identity: AgentIdentity,
    *,
    image: Mapping[str, Any],
    environment_id: str,
    equipped: Equipped,
) -> Confined:
    """Return how the container of `spec` is made.

    Raises UsageError for mounts that would stand in for a part of it, EnvironmentUnavailable for
    a volume of the image.
    """
    refuse_overmounts(spec, ExecutionEnvironment.CONTAINER)
    _refuse_volumes(spec, image)
    own = (
        *(Mount(source=source, target=f"/etc/{name}") for name, source in equipped.etc.items()),
        Mount(source=equipped.toolbox, target=f"{TOOLBOX_PLACE}/toolbox"),
        *([Mount(source=equipped.passing, target=PASSED_AT)] if equipped.passing else []),
        *equipped.python.mounts(PYTHON_PLACE),
    )
    is_piped = not equipped.passing
    options = replace(
        _options(spec, is_piped=is_piped),
        replica=equipped.replica,
        is_grouped=not equipped.is_watched,  # else somebody outside counts
        rlimits=resource_limits(
            spec.limits,
            bounds_memory=False,
            bounds_processes=False,
            is_watched=equipped.is_watched,
        ),
    )
    return Confined(
        is_podman=equipped.is_podman,
        variables=variables_of(spec, image, home=home_of(spec)),
        config={
            "Image": image["Id"],
            "Hostname": "sandbox",
            "User": f"{identity.uid}:{identity.gid}",
            "WorkingDir": "/",
            "Env": [f"{name}=" for name in inside.loader_variables(_variables_of(image))],
            "Entrypoint": equipped.python.command(PYTHON_PLACE),
            "Cmd": bootstrap(TOOLBOX_PLACE, options),
            "NetworkDisabled": True,
            "Healthcheck": {"Test": ["NONE"]},
            "Labels": {LABEL: environment_id, LABEL_PLAN: spec.plan_id},
            "HostConfig": {
                **_walls(spec, identity, own, equipped),
                **({"Runtime": spec.runtime} if spec.runtime else {}),
                **({"LogConfig": {"Type": "none"}} if is_piped else {}),
            },
            **({"OpenStdin": True, "StdinOnce": True} if is_piped else {}),
        },
    )


def _options(spec: EnvironmentSpec, *, is_piped: bool) -> ToolboxOptions:
    return ToolboxOptions(
        listen_fd=LISTEN_FD,
        listen_from="" if is_piped else PASSED_AT,
        is_piped=is_piped,
        workspace=spec.workspace.target,
        grace_s=spec.orphan_grace_s,
        output_bytes=spec.limits.output_bytes,
        is_read_only=not spec.workspace.is_writable,
        seccomp=base64.b64encode(filter_program()).decode("ascii"),
    )


def _walls(
    spec: EnvironmentSpec, identity: AgentIdentity, own: Sequence[Mount], equipped: Equipped
) -> dict[str, Any]:
    memory = spec.limits.memory_bytes or 0
    is_podman = equipped.is_podman
    cpus = min(spec.limits.cpus or 0, float(equipped.processors))  # it refuses more than there are
    return {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", *_filtered(equipped)],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "Memory": memory,
        "MemorySwap": memory,
        "NanoCpus": round(cpus * NANO),
        "PidsLimit": tasks_of(spec),
        # Podman gives up its own defaults for them; the toolbox sets the same ones inside
        "Ulimits": [] if is_podman else _ulimits(spec.limits),
        "Tmpfs": _in_memory(spec, identity, is_podman=is_podman),
        "ShmSize": spec.limits.temporary_bytes,
        "Mounts": [_bind(mount) for mount in (spec.workspace, *spec.mounts, *own)],
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "json-file", "Config": {"max-size": LOG_BYTES, "max-file": "1"}},
    }


def _filtered(equipped: Equipped) -> list[str]:
    return [f"seccomp={equipped.profile}"] if equipped.profile else []


def tasks_of(spec: EnvironmentSpec) -> int:
    """Return how many tasks of this machine it may have; 0: any number."""
    wanted = spec.limits.processes or 0
    return SENTRY_TASKS + TASKS_EACH * wanted if wanted and is_gvisor(spec.runtime) else wanted


def etc_files(identity: AgentIdentity, home: str, *, user: str = "") -> dict[str, str]:
    """Return the files that lie in /etc of a container in place of the image's, by name.

    Its users and groups; whatever `user` the agent is called, it has the number of the agent. An
    empty list of libraries that are loaded into every program, so that none enters the toolbox.
    """
    name = user if user and user not in TAKEN else AGENT
    agent = f"{name}:x:{identity.uid}:{identity.gid}:agent:{home}:/bin/sh\n"
    return {
        "group": f"{GROUP}{name}:x:{identity.gid}:\n",
        "ld.so.preload": "",
        "passwd": f"{USERS}{agent}",
    }


def id_of(handle: EnvironmentHandle) -> str:
    """Return what its engine calls it; its name where an engine was killed before it was told."""
    return str(handle.details.get("id") or f"patchyard-{handle.environment_id}")


def home_of(spec: EnvironmentSpec) -> str:
    """Return the agent's home: where no mount is."""
    return free_home([normpath(mount.target) for mount in (spec.workspace, *spec.mounts)])


def _in_memory(
    spec: EnvironmentSpec, identity: AgentIdentity, *, is_podman: bool
) -> dict[str, str]:
    """Return the folders that can be written beside the workspace, each in memory.

    Podman knows no owner of such a folder; in a container of its own nobody else is there.
    """
    common = f"rw,nosuid,nodev,exec,size={spec.limits.temporary_bytes}"
    own = f"mode=0700,uid={identity.uid},gid={identity.gid}"
    return {
        **dict.fromkeys(inside.IN_MEMORY, f"{common},mode=1777"),
        home_of(spec): f"{common},{'mode=1777' if is_podman else own}",
    }


def _refuse_volumes(spec: EnvironmentSpec, image: Mapping[str, Any]) -> None:
    """Refuse what an engine would make writable, on its own disk and without a bound."""
    shown = {normpath(mount.target) for mount in (spec.workspace, *spec.mounts)}
    taken = {*shown, *inside.IN_MEMORY, home_of(spec)}
    declared = (image.get("Config") or {}).get("Volumes") or {}
    for path in sorted(declared):
        if normpath(path) not in taken:
            raise EnvironmentUnavailable(
                f"the image declares the volume {path}, which would be writable and without a"
                " bound on this machine's disk",
                hint=f"show a folder of yours there (`--mount {path}`), or take another image",
            )


def _variables_of(image: Mapping[str, Any]) -> Sequence[str]:
    found: Sequence[str] = image.get("Config", {}).get("Env") or ()
    return found


def variables_of(spec: EnvironmentSpec, image: Mapping[str, Any], *, home: str) -> dict[str, str]:
    """Return what commands get: the image's own, then ours, then the plan's."""
    own = dict(text.split("=", 1) for text in _variables_of(image) if "=" in text)
    path = dict.fromkeys((*spec.path, *own.get("PATH", IMAGE_PATH).split(":")))
    redirected = {} if spec.workspace.is_writable else dict(READ_ONLY_VARIABLES)
    return {
        **own,
        "PATH": ":".join(path),
        "HOME": home,
        "USER": spec.user or AGENT,
        "LOGNAME": spec.user or AGENT,
        "LC_CTYPE": "C.UTF-8",
        "TMPDIR": "/tmp",  # noqa: S108 - inside, where it is its own
        "XDG_CACHE_HOME": f"{home}/.cache",
        "npm_config_cache": f"{home}/.npm",
        **redirected,
        **spec.variables,
    }


def _ulimits(limits: Limits) -> list[dict[str, Any]]:
    """Return the limits of each process; that of processor time is not the toolbox's own."""
    wanted = resource_limits(limits, bounds_memory=False, bounds_processes=False)
    return [
        {"Name": name.removeprefix("RLIMIT_").lower(), "Soft": value, "Hard": value}
        for name, value in sorted(wanted.items())
        if name != "RLIMIT_CPU"
    ]


def _bind(mount: Mount) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": mount.source,
        "Target": normpath(mount.target),
        "ReadOnly": not mount.is_writable,
        "BindOptions": {"Propagation": "rprivate"},
    }


def described(spec: EnvironmentSpec) -> list[dict[str, str]]:
    """Return a row (path, access, source) for each place that `spec` shows."""
    mounts = (spec.workspace, *spec.mounts)
    rows = [
        {
            "path": normpath(mount.target),
            "access": "writable" if mount.is_writable else "read-only",
            "source": mount.source,
        }
        for mount in mounts
    ]
    places = (*inside.IN_MEMORY, home_of(spec))
    empty = [{"path": path, "access": "empty, in memory", "source": ""} for path in places]
    return [{"path": "/", "access": "read-only", "source": f"image {spec.image}"}, *rows, *empty]


__all__ = [
    "LABEL",
    "LABEL_PLAN",
    "LISTEN_FD",
    "PASSED_AT",
    "PYTHON_PLACE",
    "Confined",
    "Equipped",
    "confined",
    "described",
    "etc_files",
    "home_of",
    "id_of",
    "tasks_of",
    "variables_of",
]
