"""Which limits the control groups that a process is really in hold, by what the kernel says.

A container engine repeats what it was asked for, also where it may make no control groups.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping

FILESYSTEM = "/sys/fs/cgroup"
UNIFIED = {"memory": "memory.max", "processes": "pids.max", "cpus": "cpu.max"}
#: By controller of version 1; of the last, its period lies beside it.
SEPARATE = {
    "memory": ("memory", "memory.limit_in_bytes"),
    "processes": ("pids", "pids.max"),
    "cpus": ("cpu", "cpu.cfs_quota_us"),
}
PERIOD = "cpu.cfs_period_us"
NANO = 1_000_000_000  # engines count processors so
SLACK = 1.01  # engines round a share of processors to whole microseconds of a period


def bounds_of(host: Mapping[str, Any]) -> dict[str, float]:
    """Return the limits that a container was asked for, by its `HostConfig`; 0: none."""
    return {
        "cpus": (host.get("NanoCpus") or 0) / NANO,
        "memory": host.get("Memory") or 0,
        "processes": host.get("PidsLimit") or 0,
    }


def unheld(
    pid: int, asked: Mapping[str, float], *, proc: str = "/proc", filesystem: str = FILESYSTEM
) -> list[str]:
    """Return the names of the limits in `asked` that no group of a process holds.

    In bytes, in tasks and in processors; 0 is not asked for. A group bounds those below it, too.
    What cannot be read holds nothing.
    """
    own = _groups("%s/%d/cgroup" % (proc, pid))
    return [
        name
        for name, wanted in sorted(asked.items())
        if wanted and not any(found <= wanted * SLACK for found in _bounds(name, own, filesystem))
    ]


def _groups(path: str) -> dict[str, str]:
    """Return the group of a process by controller, that of version 2 by the empty name."""
    found: dict[str, str] = {}
    for line in _read(path).splitlines():
        _, controllers, group = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), group))
    return found


def _bounds(name: str, own: Mapping[str, str], filesystem: str) -> Iterator[float]:
    """Yield the bound of each group on the way up that has one."""
    is_unified = os.path.exists(os.path.join(filesystem, "cgroup.controllers"))
    controller, file = ("", UNIFIED[name]) if is_unified else SEPARATE[name]
    group = own.get(controller, "")
    if ".." in group.split("/"):  # of a namespace that is not below this one
        return
    while group.strip("/"):
        folder = os.path.join(filesystem, controller, group.strip("/"))
        words = _read(os.path.join(folder, file)).split()
        if name == "cpus" and not is_unified:
            words += _read(os.path.join(folder, PERIOD)).split()
        if words and words[0].isdigit():  # else it is `max`, or -1
            yield int(words[0]) / (int(words[1]) if len(words) > 1 else 1)
        group = os.path.dirname(group)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


__all__ = ["FILESYSTEM", "bounds_of", "unheld"]
