"""Other processes: signalled, traced, read, and reached through memory that is shared."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

from .kit import LIBC, call, done, first, show, tell, victims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

PTRACE_SEIZE = 0x4206
PTRACE_DETACH = 17
SHM_RDONLY = 0o10000
IPC_NOWAIT = 0o4000


def send_signal(given: Given) -> None:
    """Kill it."""
    first(lambda pid: os.kill(pid, signal.SIGKILL), victims(given))


def trace(given: Given) -> None:
    """Take it under one's control as a debugger does."""

    def seize(pid: int) -> None:
        call("ptrace", PTRACE_SEIZE, pid, 0, 0)
        done(given)

    first(seize, victims(given))


def read_memory(given: Given) -> None:
    """Copy from its memory by a system call."""

    class Part(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    def read(pid: int) -> None:
        kept = ctypes.create_string_buffer(64)
        local = Part(ctypes.addressof(kept), 64)
        remote = Part(given["victim"]["address"], 64)
        parts = (ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
        call("process_vm_readv", pid, *parts)
        tell(kept.raw)

    first(read, victims(given))


def read_memory_file(given: Given) -> None:
    """Read its memory as a file."""

    def read(pid: int) -> None:
        with open("/proc/%d/mem" % pid, "rb", buffering=0) as file:
            file.seek(given["victim"]["address"])
            tell(file.read(64))

    first(read, victims(given))


def take_descriptor(given: Given) -> None:
    """Take a descriptor that it has open."""

    def take(pid: int) -> None:
        own = call("pidfd_getfd", call("pidfd_open", pid, 0), given["victim"]["fd"], 0)
        tell(os.pread(own, 4096, 0))

    first(take, victims(given))


def change_limits(given: Given) -> None:
    """Change its limits."""
    bounds = (given["victim"]["descriptors"],) * 2
    first(lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, bounds), victims(given))


def shared_memory(given: Given) -> None:
    """Attach memory that it shares under a number (System V)."""
    LIBC.shmat.restype = ctypes.c_void_p
    segment = LIBC.shmget(given["victim"]["key"], 0, 0)
    if segment < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    place = LIBC.shmat(segment, None, SHM_RDONLY)
    if place in {None, ctypes.c_void_p(-1).value}:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    tell(ctypes.string_at(place, 64))


def message_queue(given: Given) -> None:
    """Take a message from its queue (System V)."""
    queue = LIBC.msgget(given["victim"]["key"], 0)
    kept = ctypes.create_string_buffer(256)
    if queue < 0 or LIBC.msgrcv(queue, kept, 128, 0, IPC_NOWAIT) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    tell(kept.raw)


def shared_file(given: Given) -> None:
    """Read memory that it shares under a name (POSIX)."""
    show(given["shared"])


__all__ = [
    "IPC_NOWAIT",
    "PTRACE_DETACH",
    "PTRACE_SEIZE",
    "SHM_RDONLY",
    "change_limits",
    "message_queue",
    "read_memory",
    "read_memory_file",
    "send_signal",
    "shared_file",
    "shared_memory",
    "take_descriptor",
    "trace",
]
