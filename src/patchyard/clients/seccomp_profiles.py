"""The system call filter of `process` as a container engine takes it: what it allows, by name.

So the filter holds before anything of an image can run. An engine's own profile is an allow-list;
this one takes its place and is one too: what this machine's libseccomp knows by name, less what is
refused here, and what engines refuse. Requests of ioctl, and flags of open, are left to the
toolbox's filter: a profile cannot say "all but these".
"""

import ctypes
import errno
import functools
import json
from collections.abc import Sequence
from typing import Any

from patchyard.clients.seccomp import (
    CLONE_NEWUSER,
    FAMILIES,
    LOW_32_BITS,
    REFUSED,
    UNSUPPORTED,
    load_library,
)

NUMBERS = 1024  # no machine counts its calls further
NATIVE = 0  # SCMP_ARCH_NATIVE
NEW_NAMESPACES = 0x7E020000
"""CLONE_NEW… of every namespace but that of times, which has no bit in clone's flags."""
PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)
"""Linux, and its 64 and 32 bits by name; none that lays memory out predictably."""
BY_ARGUMENT = ("clone", "personality", "socket", "socketpair", "unshare")
OF_ENGINES = (
    *("afs_syscall", "get_mempolicy", "getpmsg", "putpmsg", "security", "tuxcall", "vserver"),
    *("bdflush", "idle", "pciconfig_iobase", "pciconfig_read", "pciconfig_write"),
)
"""What the engines' own profiles refuse beyond ours to who has no capability."""


@functools.cache
def engine_profile() -> str:
    """Return the profile as JSON. Raises EnvironmentUnavailable without libseccomp."""
    refused = {*REFUSED, *OF_ENGINES, *BY_ARGUMENT, *UNSUPPORTED}
    allowed = sorted(_known_names() - refused)
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": errno.ENOSYS,  # what is newer than the list: libraries try another call
        "syscalls": [
            _row(allowed, "SCMP_ACT_ALLOW"),
            _row(sorted({*REFUSED, *OF_ENGINES}), "SCMP_ACT_ERRNO", number=errno.EPERM),
            _row(UNSUPPORTED, "SCMP_ACT_ERRNO", number=errno.ENOSYS),
            _row(["clone"], "SCMP_ACT_ALLOW", _masked(0, NEW_NAMESPACES, 0)),
            _row(["unshare"], "SCMP_ACT_ALLOW", _masked(0, CLONE_NEWUSER, 0)),
            *(
                _row(["socket", "socketpair"], "SCMP_ACT_ALLOW", _masked(0, LOW_32_BITS, family))
                for family in FAMILIES
            ),
            *(_row(["personality"], "SCMP_ACT_ALLOW", _equal(0, value)) for value in PERSONALITIES),
        ],
    }
    return json.dumps(profile, separators=(",", ":"))


def _known_names() -> set[str]:
    """Return the names of this machine's calls that its library knows."""
    library = load_library()
    resolve, free = library.seccomp_syscall_resolve_num_arch, ctypes.CDLL(None).free
    resolve.restype = ctypes.c_void_p
    resolve.argtypes = [ctypes.c_uint32, ctypes.c_int]
    free.argtypes = [ctypes.c_void_p]
    names = set()
    for number in range(NUMBERS):
        if found := resolve(NATIVE, number):
            names.add(ctypes.string_at(found).decode("ascii"))
            free(found)
    return names


def _row(
    names: Sequence[str], action: str, *conditions: dict[str, Any], number: int | None = None
) -> dict[str, Any]:
    told = {} if number is None else {"errnoRet": number}
    return {"names": names, "action": action, "args": list(conditions), **told}


def _masked(index: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _equal(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "valueTwo": 0, "op": "SCMP_CMP_EQ"}


__all__ = ["BY_ARGUMENT", "OF_ENGINES", "engine_profile"]
