"""Which walls around a process are missing, by what the kernel says of it to somebody outside."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "uts")
NO_RIGHTS = ("CapAmb", "CapBnd", "CapEff", "CapInh", "CapPrm")  # of proc_pidstatus(5)


def missing(
    pid: int,
    *,
    filters: int,
    namespaces: Sequence[str] = NAMESPACES,
    told: Mapping[str, object] = {},
    proc: str = "/proc",
) -> list[str]:
    """Return the names of what is weaker than wanted; nothing is known of a process that is gone.

    `filters` is how many system call filters it has at least, `namespaces` are those of its own.
    `told` are numbers of namespaces, for a kernel that shows them to root alone.
    """
    facts = status("%s/%d/status" % (proc, pid))
    weaker = [name for name in NO_RIGHTS if int(facts.get(name, "f"), 16)]
    if facts.get("NoNewPrivs") != "1":
        weaker.append("NoNewPrivs")
    if facts.get("Seccomp", "2") != "2" or int(facts.get("Seccomp_filters", filters)) < filters:
        weaker.append("Seccomp_filters")
    if "0" in facts.get("Uid", "0").split():
        weaker.append("Uid")
    for name in namespaces:
        own = namespace(proc, "self", name)
        found = namespace(proc, str(pid), name)
        if not found and name in told:
            found = "%s:[%s]" % (name, told[name])
        if found and found == own:
            weaker.append(name + " namespace")
    return weaker


def status(path: str) -> dict[str, str]:
    """Return the fields of a process's status; nothing of one that is gone."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def namespace(proc: str, pid: str, name: str) -> str:
    """Return its name; nothing of one that may not be looked at."""
    try:
        return os.readlink("%s/%s/ns/%s" % (proc, pid, name))
    except OSError:
        return ""


__all__ = ["NAMESPACES", "NO_RIGHTS", "missing", "namespace", "status"]
