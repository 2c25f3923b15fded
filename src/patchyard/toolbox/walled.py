"""Which walls around a process are missing, by what the kernel says of it to somebody outside.

The kernel names a process's namespaces to root, and to who may trace it. To anybody else it still
shows what some of them hold, which tells whether they are ours. Of the others the process itself
says what it sees, before anything else runs there. What nobody tells counts as missing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "uts")
NO_RIGHTS = ("CapAmb", "CapBnd", "CapEff", "CapInh", "CapPrm")  # of proc_pidstatus(5)
FILTERED = "2"  # the mode of seccomp with a filter
MODE = "Seccomp"
UNREFUSED = "unrefused"  # what a toolbox tells of `unrefused`
NONCE_BYTES = 16
AF_ALG, AF_VSOCK = 38, 40
#: Calls by number, which from 424 on is the same everywhere, with arguments that are wrong anyway.
TRIED = {
    "io_uring_setup": (425, (0, 0)),
    "clone3": (435, (0, 0)),
    "pidfd_getfd": (438, (-1, -1, 0)),
    "process_madvise": (440, (-1, 0, 0, 0, 1)),
}


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
    `told` is what it saw itself (`seen`), or what who started it says: numbers of namespaces.
    """
    facts = status("%s/%d/status" % (proc, pid))
    weaker = [name for name in NO_RIGHTS if int(facts.get(name, "f"), 16)]
    if facts.get("NoNewPrivs") != "1":
        weaker.append("NoNewPrivs")
    if _filters(facts, told) < filters:
        weaker.append("Seccomp_filters")
    if "0" in facts.get("Uid", "0").split():
        weaker.append("Uid")
    for name in namespaces:
        is_own = _is_own(proc, str(pid), name, told.get(name))
        if is_own is None:
            weaker.append(name + " namespace, which nothing tells of")
        elif not is_own:
            weaker.append(name + " namespace")
    return weaker


def seen() -> dict[str, str]:
    """Return what this process sees of its walls: numbers of its namespaces, and its filter."""
    found = {name: namespace("/proc", "self", name) for name in NAMESPACES}
    numbers = {name: text.partition("[")[2][:-1] for name, text in found.items() if text}
    return {MODE: status("/proc/self/status").get(MODE, ""), **numbers}


def unrefused() -> list[str]:
    """Try calls that the filter refuses, and return the names of those that it did not.

    Without a filter each fails by its arguments. That a filter is there does not say which one.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    found = []
    for name, (number, words) in TRIED.items():
        result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in words))
        if result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
            found.append(name)
    for family in (AF_ALG, AF_VSOCK):
        try:
            socket.socket(family, socket.SOCK_SEQPACKET).close()
        except OSError as error:
            if error.errno in (errno.EAFNOSUPPORT, errno.EPERM, errno.ENOSYS):
                continue
        found.append("socket(%d)" % family)
    return found


def filter_missing(told: Mapping[str, object]) -> list[str]:
    """Return what a process says that its filter did not refuse; one that says nothing has none."""
    left = told.get(UNREFUSED)
    if not isinstance(left, list):
        return ["Seccomp, which nothing tells of"]
    return ["Seccomp: %s is not refused" % name for name in left]


def _filters(facts: Mapping[str, str], told: Mapping[str, object]) -> int:
    """Return how many are known of; kernels before 5.10 do not count them.

    There the first process's own is known, and the one that was there before it, by its word.
    """
    if facts.get(MODE) != FILTERED:
        return 0
    return int(facts.get("Seccomp_filters", 1 + (told.get(MODE) == FILTERED)))


def _is_own(proc: str, pid: str, name: str, told: object) -> bool | None:
    """Whether a process has a namespace that is not ours; None where nothing tells."""
    ours, theirs = namespace(proc, "self", name), namespace(proc, pid, name)
    if ours and theirs:
        return ours != theirs
    shown = {"mnt": _mounts_differ, "net": _networks_differ, "pid": _is_counted_inside}
    found = shown[name](proc, pid) if name in shown else None
    if found is not None:
        return found
    if not ours or not isinstance(told, (int, str)) or not str(told).isdigit():
        return None
    return ours != "%s:[%s]" % (name, told)


def _is_counted_inside(proc: str, pid: str) -> bool | None:
    """Whether it has a number of its own beside the one that it has here (Linux 4.1)."""
    numbers = status("%s/%s/status" % (proc, pid)).get("NSpid", "").split()
    return len(numbers) > 1 if numbers else None


def _mounts_differ(proc: str, pid: str) -> bool | None:
    """Whether it sees no mount of ours: their numbers are the kernel's, for all namespaces."""
    ours, theirs = (_first_words("%s/%s/mountinfo" % (proc, who)) for who in ("self", pid))
    return not ours & theirs if ours and theirs else None


def _first_words(path: str) -> set[bytes]:
    return {line.partition(b" ")[0] for line in _lines(path)}


def _networks_differ(proc: str, pid: str) -> bool | None:
    """Whether a socket that is made here is not among those that it sees."""
    name = b"@" + os.urandom(NONCE_BYTES).hex().encode("ascii")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bound:
        bound.bind(b"\0" + name[1:])
        ours, theirs = (_lines("%s/%s/net/unix" % (proc, who)) for who in ("self", pid))
    if not theirs or not any(line.endswith(name) for line in ours):
        return None
    return not any(line.endswith(name) for line in theirs)


def _lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            return file.read().splitlines()
    except OSError:
        return []


def status(path: str) -> dict[str, str]:
    """Return the fields of a process's status; nothing of one that is gone."""
    lines = (line.decode("utf-8", "replace") for line in _lines(path))
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def namespace(proc: str, pid: str, name: str) -> str:
    """Return its name; nothing of one that may not be looked at."""
    try:
        return os.readlink("%s/%s/ns/%s" % (proc, pid, name))
    except OSError:
        return ""


__all__ = [
    "FILTERED",
    "MODE",
    "NAMESPACES",
    "NO_RIGHTS",
    "UNREFUSED",
    "filter_missing",
    "missing",
    "namespace",
    "seen",
    "status",
    "unrefused",
]
