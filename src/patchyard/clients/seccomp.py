"""The system call filter of `process`, made by libseccomp through ctypes.

Knows nothing of sandboxes: it gives the program's bytes, for a descriptor that loads them.
"""

import ctypes
import errno
import fcntl
import functools
import os
from ctypes import c_char_p, c_int, c_uint, c_uint32, c_uint64, c_void_p
from types import MappingProxyType
from typing import Any

from patchyard.domain.errors import EnvironmentUnavailable

ALLOW = 0x7FFF0000
ERRNO = 0x00050000
NOT_EQUAL = 1  # SCMP_CMP_NE
MASKED_EQUAL = 7  # SCMP_CMP_MASKED_EQ
GREATER = 6  # SCMP_CMP_GT
UNKNOWN = -1  # __NR_SCMP_ERROR
LOW_32_BITS = 0xFFFFFFFF  # the kernel reads a request number as 32 bits (CVE-2019-10063)

TIOCSTI = 0x5412  # types into the terminal of somebody else
TIOCLINUX = 0x541C  # pastes a console's selection
CLONE_NEWUSER = 0x10000000
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
FAMILIES = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
"""Those of sockets that are left."""

REFUSED = (
    # memory and state of other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"),
    # keyrings are not namespaced
    *("add_key", "request_key", "keyctl"),
    # large attack surfaces that builds and tests do not need
    *("bpf", "userfaultfd", "perf_event_open", "io_uring_setup", "io_uring_enter"),
    *("io_uring_register", "lookup_dcookie", "nfsservctl", "vm86", "vm86old", "modify_ldt"),
    # mounts and roots
    *("mount", "umount", "umount2", "mount_setattr", "move_mount", "open_tree", "fsopen"),
    *("fsconfig", "fsmount", "fspick", "open_tree_attr", "pivot_root", "chroot", "setns"),
    # files by handle pass every mount
    "open_by_handle_at",
    # the machine
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"),
    *("create_module", "query_module", "get_kernel_syms", "reboot", "swapon", "swapoff", "acct"),
    *("syslog", "settimeofday", "clock_settime", "clock_settime64", "stime", "adjtimex"),
    *("clock_adjtime", "clock_adjtime64", "iopl", "ioperm", "quotactl", "quotactl_fd", "_sysctl"),
    *("sethostname", "setdomainname", "vhangup", "uselib", "ustat", "sysfs", "fanotify_init"),
    *("mbind", "migrate_pages", "move_pages", "set_mempolicy", "set_mempolicy_home_node"),
)
"""System calls that answer EPERM."""

UNSUPPORTED = ("clone3", "openat2", "copy_file_range")
"""Calls that answer ENOSYS, so that libraries take an older one.

The first two hide their flags behind a pointer. A copy by the kernel within an overlay, or on a
file system whose files share blocks, leaves no time of access: no proof would see that read.
"""

SHARING = (0x40049409, 0x4020940D, 0xC0189436)
"""Requests FICLONE, FICLONERANGE and FIDEDUPERANGE: they too take in a file without its time."""

YOUNG = MappingProxyType(
    {
        "io_uring_setup": 425,
        "io_uring_enter": 426,
        "io_uring_register": 427,
        "open_tree": 428,
        "move_mount": 429,
        "fsopen": 430,
        "fsconfig": 431,
        "fsmount": 432,
        "fspick": 433,
        "clone3": 435,
        "openat2": 437,
        "pidfd_getfd": 438,
        "process_madvise": 440,
        "mount_setattr": 442,
        "quotactl_fd": 443,
        "set_mempolicy_home_node": 450,
        "open_tree_attr": 467,
    }
)
"""Those the library may be too old to know by name; from 424 on a number is the same everywhere."""


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = (
        ("arg", c_uint),
        ("op", c_int),
        ("first", c_uint64),
        ("second", c_uint64),
    )


@functools.cache
def filter_program() -> bytes:
    """Return the filter as BPF for this machine. Raises EnvironmentUnavailable without libseccomp.

    Programs of another word size are killed: they would number their calls differently.
    """
    library = load_library()
    context = library.seccomp_init(ALLOW)
    if not context:
        raise EnvironmentUnavailable("libseccomp does not know this kind of machine")
    try:
        for name in REFUSED:
            _refuse(library, context, name, errno.EPERM)
        for name in UNSUPPORTED:
            _refuse(library, context, name, errno.ENOSYS)
        new_user = Comparison(0, MASKED_EQUAL, CLONE_NEWUSER, CLONE_NEWUSER)
        _refuse(library, context, "clone", errno.EPERM, new_user)
        _refuse(library, context, "unshare", errno.EPERM, new_user)
        for request in (TIOCSTI, TIOCLINUX):
            same = Comparison(1, MASKED_EQUAL, LOW_32_BITS, request)
            _refuse(library, context, "ioctl", errno.EPERM, same)
        for request in SHARING:
            same = Comparison(1, MASKED_EQUAL, LOW_32_BITS, request)
            _refuse(library, context, "ioctl", errno.EOPNOTSUPP, same)
        _refuse_unnoted(library, context)
        _refuse_families(library, context)
        return _export(library, context)
    finally:
        library.seccomp_release(context)


def load_library() -> Any:
    """Return libseccomp. Raises EnvironmentUnavailable where there is none."""
    try:
        library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    except OSError as error:
        raise EnvironmentUnavailable(
            "libseccomp is missing, which refuses dangerous system calls in the sandbox",
            hint="apt install libseccomp2 (or your distribution's libseccomp)",
        ) from error
    library.seccomp_init.restype = c_void_p
    library.seccomp_init.argtypes = [c_uint32]
    library.seccomp_release.restype = None
    library.seccomp_release.argtypes = [c_void_p]
    library.seccomp_syscall_resolve_name.argtypes = [c_char_p]
    library.seccomp_rule_add_array.argtypes = [
        *(c_void_p, c_uint32, c_int, c_uint, ctypes.POINTER(Comparison)),
    ]
    library.seccomp_export_bpf.argtypes = [c_void_p, c_int]
    return library


def _refuse(library: Any, context: Any, name: str, number: int, *comparisons: Comparison) -> None:
    """Answer `name` with the error `number`, where the comparisons hold."""
    syscall = library.seccomp_syscall_resolve_name(name.encode())
    if syscall == UNKNOWN:
        syscall = YOUNG.get(name, UNKNOWN)
    if syscall == UNKNOWN:
        return  # a call of other machines
    array = (Comparison * max(1, len(comparisons)))(*comparisons)
    result = library.seccomp_rule_add_array(
        context, ERRNO | number, syscall, len(comparisons), array
    )
    if result not in {0, -errno.EDOM}:  # EDOM: the call does not exist on this architecture
        raise EnvironmentUnavailable(f"libseccomp refused the rule for {name}: {result}")


def _refuse_unnoted(library: Any, context: Any) -> None:
    """Refuse reads that change no time of access, as the kernel does to who owns no file."""
    flag = os.O_NOATIME
    _refuse(library, context, "open", errno.EPERM, Comparison(1, MASKED_EQUAL, flag, flag))
    _refuse(library, context, "openat", errno.EPERM, Comparison(2, MASKED_EQUAL, flag, flag))
    setting = Comparison(1, MASKED_EQUAL, LOW_32_BITS, fcntl.F_SETFL)
    later = Comparison(2, MASKED_EQUAL, flag, flag)
    _refuse(library, context, "fcntl", errno.EPERM, setting, later)


def _refuse_families(library: Any, context: Any) -> None:
    """Leave sockets of four families: AF_VSOCK reaches a hypervisor through every namespace."""
    refused = [family for family in range(AF_NETLINK) if family not in FAMILIES]
    comparisons = [Comparison(0, MASKED_EQUAL, LOW_32_BITS, family) for family in refused]
    comparisons.append(Comparison(0, GREATER, AF_NETLINK))
    for name in ("socket", "socketpair"):
        for comparison in comparisons:
            _refuse(library, context, name, errno.EAFNOSUPPORT, comparison)


def _export(library: Any, context: Any) -> bytes:
    descriptor = os.memfd_create("seccomp")
    try:
        result = library.seccomp_export_bpf(context, descriptor)
        if result != 0:
            raise EnvironmentUnavailable(f"libseccomp could not write the filter: {result}")
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


__all__ = [
    "CLONE_NEWUSER",
    "FAMILIES",
    "LOW_32_BITS",
    "REFUSED",
    "SHARING",
    "UNKNOWN",
    "UNSUPPORTED",
    "YOUNG",
    "Comparison",
    "filter_program",
    "load_library",
]
