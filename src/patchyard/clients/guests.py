"""What a virtual machine is told when it becomes the one of a spec, as data. Pure."""

import base64
from collections.abc import Mapping
from posixpath import normpath
from typing import Any

from patchyard.clients.containers import etc_files, home_of
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.overmounts import refuse_overmounts
from patchyard.clients.rlimits import resource_limits
from patchyard.clients.seccomp import filter_program
from patchyard.clients.toolbox_options import ToolboxOptions, settings_text
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Limits
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.toolbox.guest import REPLICA, SOCKET_FD

MIB = 1024 * 1024
LEAST_MIB, USUAL_MIB = 256, 4096
OVERHEAD_BYTES = 768 * MIB  # QEMU's own, translated code among it
QEMU_TASKS = 256  # threads of QEMU's and processes around it
LEAST_GRACE_S = 30.0  # inside, where time passes slowly; its warden keeps the one that was asked
ENTROPY_BYTES = 64
ETC = {
    "hostname": "sandbox\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
    "resolv.conf": "# no network: names are resolved from /etc/hosts alone\n",
    "shells": "/bin/sh\n/bin/bash\n",
}


def memory_of(limits: Limits, *, host_bytes: int) -> int:
    """Return the machine's memory in MiB; three quarters of the host's at most.

    Raises EnvironmentUnavailable when it is too little.
    """
    wanted = limits.memory_bytes or USUAL_MIB * MIB
    found = min(wanted, host_bytes // 4 * 3) // MIB
    if found < LEAST_MIB:
        raise EnvironmentUnavailable(
            f"a virtual machine cannot start with {found} MiB of memory",
            hint=f"allow it {LEAST_MIB} MiB, or take another kind",
        )
    return found


def refuse_unshown(spec: EnvironmentSpec) -> None:
    """Raise UsageError or EnvironmentUnavailable for places that no machine of ours can show."""
    refuse_overmounts(spec, ExecutionEnvironment.VM)
    for mount in spec.mounts:
        if mount.is_writable:
            raise EnvironmentUnavailable(
                f"{mount.source} cannot be written to from a virtual machine, which shares no"
                " folder with this one",
                hint="mount it read-only, or take another kind",
            )


def told(
    spec: EnvironmentSpec,
    identity: AgentIdentity,
    *,
    now: float,
    entropy: bytes,
    machine_id: str,
) -> Mapping[str, Any]:
    """Return what makes a machine the one of `spec`: seconds since the epoch, random bytes."""
    home = home_of(spec)
    options = ToolboxOptions(
        listen_fd=SOCKET_FD,
        replica=REPLICA,
        workspace=spec.workspace.target,
        uid=identity.uid,
        gid=identity.gid,
        grace_s=max(spec.orphan_grace_s, LEAST_GRACE_S),
        output_bytes=spec.limits.output_bytes,
        rlimits=resource_limits(spec.limits, bounds_memory=False, bounds_processes=True),
        is_machine=True,
        is_read_only=not spec.workspace.is_writable,
        seccomp=base64.b64encode(filter_program()).decode("ascii"),
    )
    return {
        "do": "begin",
        "now": now,
        "entropy": base64.b64encode(entropy).decode("ascii"),
        "hostname": f"sandbox-{machine_id[:8]}",
        "etc": {**ETC, **etc_files(identity, home), "machine-id": f"{machine_id}\n"},
        "shown": [normpath(mount.target) for mount in spec.mounts],
        "workspace": spec.workspace.target,
        "is_writable": spec.workspace.is_writable,
        "uid": identity.uid,
        "gid": identity.gid,
        "settings": settings_text(options),
    }


__all__ = [
    "ENTROPY_BYTES",
    "LEAST_MIB",
    "MIB",
    "OVERHEAD_BYTES",
    "QEMU_TASKS",
    "memory_of",
    "refuse_unshown",
    "told",
]
