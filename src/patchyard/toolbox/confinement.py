"""What the toolbox gives up before it serves: privileges, the right to regain them, being read."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .settings import Settings

# linux/prctl.h and linux/capability.h
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION_3 = 0x20080522
LAST_CAPABILITY = 63
SECCOMP_MODE_FILTER = 2  # linux/seccomp.h
BPF_BYTES = 8  # of one instruction
PER_COMMAND = frozenset({"RLIMIT_CPU"})
"""Limits that commands get one by one: the toolbox itself may live long."""
OFFERED = b"500"
SIGNALLED_S = 1  # between the signal that says which limit it is, and the one that ends it


class Offering:
    """What is started next is ended before us where memory is short: we tell what became of it.

    As if it used half of the memory: see proc_pid_oom_score_adj(5). No wall: what is started may
    write 0 into its own file. Opened before `confine`, which makes the file another user's.
    """

    def __init__(self) -> None:
        self._file = -1
        self._own = b"0"
        with contextlib.suppress(OSError):  # where nobody may be told
            self._file = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._own = os.pread(self._file, 16, 0).strip()

    def begin(self) -> None:
        """Offer whoever is started from here on."""
        self._tell(OFFERED)

    def end(self) -> None:
        """Offer nobody any more."""
        self._tell(self._own)

    def _tell(self, score: bytes) -> None:
        if self._file >= 0 and int(self._own) < int(OFFERED):
            with contextlib.suppress(OSError):
                os.pwrite(self._file, score, 0)


def confine(settings: Settings) -> None:
    """Become the agent and lock the door behind. Raises OSError when any of it fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    _limit(settings.rlimits)
    if settings.uid is not None:
        _become(libc, settings.uid, settings.uid if settings.gid is None else settings.gid)
    elif os.geteuid() != 0:
        _narrow(libc)
        _let_go(libc)
    _prctl(libc, PR_SET_NO_NEW_PRIVS, 1)
    _prctl(libc, PR_SET_DUMPABLE, 0)
    if os.getpid() != 1:
        _prctl(libc, PR_SET_CHILD_SUBREAPER, 1)
    if settings.seccomp:
        _filter(libc, base64.b64decode(settings.seccomp))


def _limit(rlimits: dict[str, int]) -> None:
    for name, wanted in rlimits.items():
        if name in PER_COMMAND:
            continue
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))


def limit_next(rlimits: dict[str, int]) -> None:
    """Let whoever is started next begin with its own limits; ours go back by `limit_command`."""
    for name in PER_COMMAND.intersection(rlimits):
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        soft = rlimits[name] if hard == resource.RLIM_INFINITY else min(rlimits[name], hard)
        resource.setrlimit(kind, (soft, hard))


def limit_command(pid: int, rlimits: dict[str, int]) -> None:
    """Make the limits of a command just started (0: none was) final, and take back our own."""
    try:
        for name in PER_COMMAND.intersection(rlimits):
            kind = getattr(resource, name)
            soft, hard = resource.getrlimit(kind)
            resource.setrlimit(kind, (hard, hard))
            if pid:
                last = soft + SIGNALLED_S
                final = last if hard == resource.RLIM_INFINITY else min(last, hard)
                resource.prlimit(pid, kind, (soft, final))
    except ProcessLookupError:
        return


def _become(libc: ctypes.CDLL, uid: int, gid: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        _narrow(libc)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    _let_go(libc)


def _narrow(libc: ctypes.CDLL) -> None:
    """Let no program that is started get a capability, where we have a say in that."""
    for capability in range(LAST_CAPABILITY + 1):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # the kernel knows no more of them, or none may be dropped


def _let_go(libc: ctypes.CDLL) -> None:
    """Give up every capability; one that was for opening the replica too."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _filter(libc: ctypes.CDLL, program: bytes) -> None:
    """Let the kernel refuse what `program` says, to us and all that we start."""
    kept = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // BPF_BYTES, ctypes.addressof(kept))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(header), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def make_home(home: str) -> None:
    """Make the agent's home as git, ssh and npm want it: its own, and closed to others."""
    try:
        os.mkdir(home, 0o700)
    except OSError:  # it is there, or not the agent's to make
        return


def _prctl(libc: ctypes.CDLL, option: int, value: int) -> None:
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl %d" % option)


__all__ = [
    "CAPABILITY_VERSION_3",
    "LAST_CAPABILITY",
    "OFFERED",
    "PER_COMMAND",
    "PR_CAPBSET_DROP",
    "PR_SET_CHILD_SUBREAPER",
    "PR_SET_DUMPABLE",
    "PR_SET_NO_NEW_PRIVS",
    "SIGNALLED_S",
    "Offering",
    "confine",
    "limit_command",
    "limit_next",
    "make_home",
]
