"""What a container of ours is made with, as data, and whether the engine made it so. Pure."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath
from typing import Any

from patchyard.clients.bubblewrap import MEMORY_PLACE_BYTES
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.rlimits import resource_limits
from patchyard.clients.seccomp import filter_program
from patchyard.clients.toolbox import ToolboxOptions, bootstrap
from patchyard.clients.toolchains import is_within
from patchyard.clients.walls import READ_ONLY_VARIABLES, TOOLBOX_PLACE, free_home
from patchyard.domain.environment import EnvironmentSpec, Mount
from patchyard.domain.errors import EnvironmentUnavailable, UsageError

PYTHON = "python3"  # as the image's own PATH finds it
LISTEN_FD = 3
PASSED_AT = f"{TOOLBOX_PLACE}/pass.sock"
LOG_BYTES = "64k"
IMAGE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RESERVED = ("/proc", "/sys", "/dev", TOOLBOX_PLACE)
USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n"
GROUP = "root:x:0:\nnogroup:x:65534:\n"
LABEL = "patchyard.environment"
LABEL_PLAN = "patchyard.plan"


@dataclass(frozen=True, kw_only=True)
class Confined:
    """What is asked of the engine: the body of its `containers/create`."""

    config: Mapping[str, Any]

    @property
    def host(self) -> Mapping[str, Any]:
        """The walls among it."""
        found: Mapping[str, Any] = self.config["HostConfig"]
        return found


def confined(
    spec: EnvironmentSpec,
    identity: AgentIdentity,
    *,
    image: Mapping[str, Any],
    environment_id: str,
    toolbox: str,
    passing: str,
    accounts: Mapping[str, str],
) -> Confined:
    """Return how the container of `spec` is made.

    `toolbox`, `passing` and `accounts` (of /etc, by name) are paths out here.

    Raises UsageError for mounts that would stand in for a part of it.
    """
    _refuse_reserved(spec)
    own = (
        *(Mount(source=source, target=f"/etc/{name}") for name, source in accounts.items()),
        Mount(source=toolbox, target=f"{TOOLBOX_PLACE}/toolbox"),
        Mount(source=passing, target=PASSED_AT),
    )
    options = _options(spec, _variables(spec, image, home=home_of(spec)))
    return Confined(
        config={
            "Image": image["Id"],
            "Hostname": "sandbox",
            "User": f"{identity.uid}:{identity.gid}",
            "WorkingDir": "/",
            "Entrypoint": [PYTHON],
            "Cmd": bootstrap(TOOLBOX_PLACE, options),
            "NetworkDisabled": True,
            "Healthcheck": {"Test": ["NONE"]},
            "Labels": {LABEL: environment_id, LABEL_PLAN: spec.plan_id},
            "HostConfig": _walls(spec, identity, own),
        }
    )


def _options(spec: EnvironmentSpec, variables: Mapping[str, str]) -> ToolboxOptions:
    return ToolboxOptions(
        listen_fd=LISTEN_FD,
        listen_from=PASSED_AT,
        workspace=spec.workspace.target,
        grace_s=spec.orphan_grace_s,
        output_bytes=spec.limits.output_bytes,
        rlimits=resource_limits(spec.limits, bounds_memory=False, bounds_processes=False),
        is_read_only=not spec.workspace.is_writable,
        seccomp=base64.b64encode(filter_program()).decode("ascii"),
        env=variables,
    )


def _walls(spec: EnvironmentSpec, identity: AgentIdentity, own: Sequence[Mount]) -> dict[str, Any]:
    memory = spec.limits.memory_bytes or 0
    return {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "Memory": memory,
        "MemorySwap": memory,
        "PidsLimit": spec.limits.processes or 0,
        "Tmpfs": _in_memory(identity, home_of(spec)),
        "Mounts": [_bind(mount) for mount in (spec.workspace, *spec.mounts, *own)],
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "json-file", "Config": {"max-size": LOG_BYTES, "max-file": "1"}},
    }


def accounts_of(identity: AgentIdentity, home: str) -> dict[str, str]:
    """Return the users and groups that a container knows, by their file in /etc."""
    agent = f"agent:x:{identity.uid}:{identity.gid}:agent:{home}:/bin/sh\n"
    return {"group": f"{GROUP}agent:x:{identity.gid}:\n", "passwd": f"{USERS}{agent}"}


def home_of(spec: EnvironmentSpec) -> str:
    """Return the agent's home: where no mount is."""
    return free_home([normpath(mount.target) for mount in (spec.workspace, *spec.mounts)])


def _refuse_reserved(spec: EnvironmentSpec) -> None:
    for mount in (spec.workspace, *spec.mounts):
        target = normpath(mount.target)
        if target == "/" or any(is_within(place, target) for place in RESERVED):
            raise UsageError(
                f"{target} would stand in for a part of the container",
                hint="move the checkout to a folder of its own, or take another kind",
            )


def _variables(spec: EnvironmentSpec, image: Mapping[str, Any], *, home: str) -> dict[str, str]:
    """Return what commands get: the image's own, then ours, then the plan's."""
    own = dict(
        text.split("=", 1) for text in image.get("Config", {}).get("Env") or () if "=" in text
    )
    path = dict.fromkeys((*spec.path, *own.get("PATH", IMAGE_PATH).split(":")))
    redirected = {} if spec.workspace.is_writable else dict(READ_ONLY_VARIABLES)
    return {
        **own,
        "PATH": ":".join(path),
        "HOME": home,
        "USER": "agent",
        "LOGNAME": "agent",
        "LC_CTYPE": "C.UTF-8",
        "TMPDIR": "/tmp",  # noqa: S108 - inside, where it is its own
        "XDG_CACHE_HOME": f"{home}/.cache",
        "npm_config_cache": f"{home}/.npm",
        **redirected,
        **spec.variables,
    }


def _in_memory(identity: AgentIdentity, home: str) -> dict[str, str]:
    """Return the folders that can be written beside the workspace, each in memory."""
    common = f"rw,nosuid,nodev,exec,size={MEMORY_PLACE_BYTES}"
    return {
        "/tmp": f"{common},mode=1777",  # noqa: S108 - inside
        "/var/tmp": f"{common},mode=1777",  # noqa: S108 - inside
        home: f"{common},mode=0700,uid={identity.uid},gid={identity.gid}",
    }


def _bind(mount: Mount) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": mount.source,
        "Target": normpath(mount.target),
        "ReadOnly": not mount.is_writable,
        "BindOptions": {"Propagation": "rprivate"},
    }


def require_as_asked(made: Mapping[str, Any] | None, asked: Confined) -> None:
    """Raise EnvironmentUnavailable where the container is weaker than what was asked for."""
    found = (made or {}).get("HostConfig") or {}
    weaker = [*_unlike(found, asked.host), *_opened(found)]
    if (made or {}).get("Config", {}).get("User") != asked.config["User"]:
        weaker.append("User")
    if weaker:
        raise EnvironmentUnavailable(
            f"the container engine made a weaker container than asked: {', '.join(weaker)}",
            hint="look at the engine's configuration; nothing was started",
        )


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
    home = home_of(spec)
    empty = [
        {"path": path, "access": "empty, in memory", "source": ""}
        for path in ("/tmp", "/var/tmp", home)  # noqa: S108 - inside
    ]
    return [{"path": "/", "access": "read-only", "source": f"image {spec.image}"}, *rows, *empty]


SAME = ("NetworkMode", "ReadonlyRootfs", "IpcMode", "Memory", "PidsLimit", "Tmpfs")
CLOSED = ("Privileged", "CapAdd", "Devices", "DeviceRequests", "DeviceCgroupRules", "Binds")
OWN = ("PidMode", "UTSMode", "UsernsMode", "VolumesFrom", "Links", "PortBindings", "GroupAdd")


def _unlike(found: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    wrong = [name for name in SAME if found.get(name) != asked[name]]
    if [str(name).upper() for name in found.get("CapDrop") or ()] != ["ALL"]:
        wrong.append("CapDrop")
    options = [str(option) for option in found.get("SecurityOpt") or ()]
    if not any(option.startswith("no-new-privileges") for option in options):
        wrong.append("SecurityOpt")
    if any("unconfined" in option or "false" in option for option in options):
        wrong.append("SecurityOpt")
    shown = found.get("Mounts") or ()
    mounts = [(m.get("Source"), m.get("Target"), bool(m.get("ReadOnly"))) for m in shown]
    wanted = [(m["Source"], m["Target"], m["ReadOnly"]) for m in asked["Mounts"]]
    return wrong if sorted(mounts) == sorted(wanted) else [*wrong, "Mounts"]


def _opened(found: Mapping[str, Any]) -> list[str]:
    return [name for name in (*CLOSED, *OWN) if found.get(name)]


__all__ = [
    "LABEL",
    "LABEL_PLAN",
    "LISTEN_FD",
    "PASSED_AT",
    "PYTHON",
    "Confined",
    "accounts_of",
    "confined",
    "described",
    "home_of",
    "require_as_asked",
]
