"""More rights: set-user-ID files, namespaces, keyrings, mounts, rare parts of the kernel."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess

from .kit import CLONE_NEWUSER, LIBC, call, done, granted, in_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

SIGCHLD = 17
X32 = 0x40000000
MS_REMOUNT = 0x20
NEW_NET_AND_IPC = 0x48000000
USER_KEYRING = -4
BPF_MAP_CREATE = 0
USER_MODE_ONLY = 1  # UFFD_USER_MODE_ONLY
WITHOUT_KERNEL = 0b1100000  # exclude_kernel, exclude_hv
SIZE_BUFFER = 10  # SYSLOG_ACTION_SIZE_BUFFER


def setuid_program(given: Given) -> None:
    """Run a program that belongs to root and sets the user."""
    program = os.path.join(given["near"], "become-root")
    said = subprocess.run([program, "-u"], stdout=subprocess.PIPE, check=True).stdout
    if said.strip() == b"0":
        done(given)


def leave_setuid(given: Given) -> None:
    """Leave a program behind that makes whoever runs it root."""
    shutil.copy("/bin/true", given["spot"])
    os.chmod(given["spot"], 0o4755)


def own_by_root(given: Given) -> None:
    """Give a file to root, with a set-user-ID bit."""
    leave_setuid(given)
    os.chown(given["spot"], 0, 0)
    os.chmod(given["spot"], 0o4755)


def become_root(given: Given) -> None:
    """Become root."""
    os.setgid(0)
    os.setuid(0)
    done(given)


def hold_capabilities(given: Given) -> None:
    """Use a capability: bind the lowest port there is, or change who owns a file."""
    with open("/proc/self/status", encoding="ascii") as file:
        rows = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    if int(rows["CapEff"], 16) | int(rows["CapPrm"], 16):
        done(given, rows["CapEff"].strip())


def user_namespace(given: Given) -> None:
    """Become root of a namespace of one's own, by unshare."""
    in_child(given, lambda: _none(call("unshare", CLONE_NEWUSER)))


def user_namespace_by_clone(given: Given) -> None:
    """The same, by clone."""
    pid = call("clone", CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    done(given)


def user_namespace_by_clone3(given: Given) -> None:
    """The same, by clone3, whose flags no filter can see."""
    words = [0] * 11
    words[0], words[4] = CLONE_NEWUSER, SIGCHLD
    arguments = ctypes.create_string_buffer(struct.pack("11Q", *words))
    pid = call("clone3", arguments, 88)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    done(given)


def other_namespaces(given: Given) -> None:
    """Make other namespaces, which needs rights over this one."""
    in_child(given, lambda: _none(call("unshare", NEW_NET_AND_IPC)))


def keyring(given: Given) -> None:
    """Put a key into the user's keyring, which every process of that user shares."""
    words = (b"user", given["token"].encode(), b"payload", 7, USER_KEYRING)
    granted(given, "add_key", *words)


def read_keyring(given: Given) -> None:
    """Ask for the user's keyring."""
    granted(given, "keyctl", 0, USER_KEYRING, 0)


def mount(given: Given) -> None:
    """Mount a file system of one's own."""
    os.mkdir(given["spot"])
    granted(given, "mount", b"none", given["spot"].encode(), b"tmpfs", 0, None)


def mount_anew(given: Given) -> None:
    """Open a file system by the newer calls."""
    granted(given, "fsopen", b"tmpfs", 0)


def change_root(given: Given) -> None:
    """Take another root, from where an old trick leads out."""
    in_child(given, lambda: _none(call("chroot", given["near"].encode())))


def io_uring(given: Given) -> None:
    """Make a ring of requests, which pass filters of system calls."""
    granted(given, "io_uring_setup", 1, ctypes.create_string_buffer(120))


def bpf(given: Given) -> None:
    """Make a map for programs inside the kernel."""
    attributes = ctypes.create_string_buffer(struct.pack("5I", 1, 4, 4, 1, 0), 120)
    granted(given, "bpf", BPF_MAP_CREATE, attributes, 120)


def userfaultfd(given: Given) -> None:
    """Take over page faults, which makes races in the kernel easy."""
    granted(given, "userfaultfd", USER_MODE_ONLY)


def perf_event(given: Given) -> None:
    """Watch the machine by its counters."""
    # our own processor time, without the kernel's part: the least there is to ask for
    words = struct.pack("2I5Q", 1, 64, 1, 0, 0, 0, WITHOUT_KERNEL)
    granted(given, "perf_event_open", ctypes.create_string_buffer(words, 64), 0, -1, -1, 0)


def kernel_module(given: Given) -> None:
    """Load a module; the file is none, so that only a kernel that would look says so."""
    with open(given["planned"], "rb") as file:
        try:
            granted(given, "finit_module", file.fileno(), b"", 0)
        except OSError as error:
            if error.strerror == "Exec format error":
                done(given, "the kernel looked into the file")
                return
            raise


def kernel_log(given: Given) -> None:
    """Read the messages of the kernel."""
    granted(given, "syslog", SIZE_BUFFER, None, 0)


def swap(given: Given) -> None:
    """Swap into a file of one's own; it is too small, so that nothing comes of it."""
    try:
        granted(given, "swapon", given["planned"].encode(), 0)
    except OSError as error:
        if error.strerror == "Invalid argument":
            done(given, "the kernel looked into the file")
            return
        raise


def other_numbering(given: Given) -> None:
    """Make a call by the numbers of another kind of program, which a filter may not know."""
    if os.uname().machine != "x86_64":
        raise OSError("this machine has one numbering")
    result = LIBC.syscall(ctypes.c_long(X32 | 39))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    done(given)


def gain_by_exec(given: Given) -> None:
    """Be without the promise that no program gives more rights."""
    if LIBC.prctl(39, 0, 0, 0, 0) == 0:  # PR_GET_NO_NEW_PRIVS
        done(given)


def _none(_result: int) -> None:
    return


__all__ = [
    "BPF_MAP_CREATE",
    "MS_REMOUNT",
    "NEW_NET_AND_IPC",
    "SIGCHLD",
    "SIZE_BUFFER",
    "USER_KEYRING",
    "USER_MODE_ONLY",
    "WITHOUT_KERNEL",
    "X32",
    "become_root",
    "bpf",
    "change_root",
    "gain_by_exec",
    "hold_capabilities",
    "io_uring",
    "kernel_log",
    "kernel_module",
    "keyring",
    "leave_setuid",
    "mount",
    "mount_anew",
    "other_namespaces",
    "other_numbering",
    "own_by_root",
    "perf_event",
    "read_keyring",
    "setuid_program",
    "swap",
    "user_namespace",
    "user_namespace_by_clone",
    "user_namespace_by_clone3",
    "userfaultfd",
]
