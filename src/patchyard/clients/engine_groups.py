"""Whether a container engine bounds what it runs: by what it says of itself, then by the kernel.

An engine without root may have no control groups to make. It takes each limit then and repeats it,
and nothing holds it.
"""

from collections.abc import Mapping
from typing import Any

from patchyard.clients.containers import Confined
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.toolbox.bounded import FILESYSTEM, bounds_of, unheld

NONE = "none"  # the driver of an engine that makes no control groups
LIMITS = {"MemoryLimit": "memory", "PidsLimit": "processes"}  # what it says it can hold
ANOTHER = (
    "delegate control groups of version 2 to the user of a rootless engine, take an engine that"
    " root runs, or take another kind, such as `--in process`"
)


def require_groups(info: Mapping[str, Any]) -> None:
    """Raise EnvironmentUnavailable where an engine says that it holds no limits.

    `info` is what it says at /info; what an engine leaves out is seen when a container runs.
    """
    missing = [limit for name, limit in LIMITS.items() if info.get(name) is False]
    if info.get("CgroupDriver") == NONE:
        raise EnvironmentUnavailable(
            "the container engine makes no control groups (it says `Cgroup Driver: none`): it would"
            " take limits of memory, processes and processors, and hold none",
            hint=ANOTHER,
        )
    if missing:
        raise EnvironmentUnavailable(
            f"the container engine says that it holds no limit of {' and '.join(missing)}",
            hint=ANOTHER,
        )


def require_held(
    pid: int, asked: Confined, *, proc: str = "/proc", filesystem: str = FILESYSTEM
) -> None:
    """Raise EnvironmentUnavailable where the kernel says that a container is bounded by less.

    `pid` is a process of it, as seen from out here.
    """
    missing = unheld(pid, bounds_of(asked.host), proc=proc, filesystem=filesystem)
    if missing:
        raise EnvironmentUnavailable(
            "the container engine took limits that no control group of the container holds:"
            f" {', '.join(missing)}",
            hint=ANOTHER,
        )


__all__ = ["ANOTHER", "require_groups", "require_held"]
