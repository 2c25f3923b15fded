"""The bait process: holds a canary in memory, environment, arguments and an open file."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys

from .kit import LIBC, look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

LIFE_S = 120
IPC_CREAT = 0o1000
IPC_RMID = 0


def live(given: Given) -> None:
    """Say where everything lies, then wait until standard input ends."""
    canary = look(given["secret"]).strip()
    kept = ctypes.create_string_buffer(canary)
    os.chdir(given["folder"])
    file = os.open(given["secret"], os.O_RDONLY)
    segment, queue = _share(given["key"], canary)
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(1))
    signal.alarm(LIFE_S)
    facts = {
        "pid": os.getpid(),
        "address": ctypes.addressof(kept),
        "fd": file,
        "key": given["key"],
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1,
    }
    print(json.dumps(facts), flush=True)
    try:
        sys.stdin.read()
    finally:
        LIBC.shmctl(segment, IPC_RMID, None)
        LIBC.msgctl(queue, IPC_RMID, None)


def _share(key: int, canary: bytes) -> tuple[int, int]:
    """Put the canary into a segment and a queue that everybody may read; -1 without a key."""
    if not key:
        return -1, -1
    LIBC.shmat.restype = ctypes.c_void_p
    segment = LIBC.shmget(key, 4096, IPC_CREAT | 0o666)
    place = LIBC.shmat(segment, None, 0)
    ctypes.memmove(place, canary, len(canary))
    queue = LIBC.msgget(key, IPC_CREAT | 0o666)
    message = ctypes.create_string_buffer(ctypes.sizeof(ctypes.c_long) + len(canary))
    ctypes.c_long.from_buffer(message).value = 1
    ctypes.memmove(ctypes.addressof(message) + ctypes.sizeof(ctypes.c_long), canary, len(canary))
    LIBC.msgsnd(queue, message, len(canary), 0)
    return segment, queue


__all__ = ["IPC_CREAT", "IPC_RMID", "LIFE_S", "live"]
