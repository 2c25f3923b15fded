"""Locks between processes, as files of ours that the kernel frees when their owner dies."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from patchyard.domain.errors import Conflict

PAUSE_S = 0.02


@contextlib.contextmanager
def locked(path: Path, *, timeout_s: float = 600.0) -> Iterator[None]:
    """Hold the lock `path` (made when missing). Raises Conflict when it stays taken.

    Whoever holds it may delete the file: who waited then waits for the new one.
    """
    deadline = time.monotonic() + timeout_s
    while (descriptor := taken(path)) is None:
        if time.monotonic() > deadline:
            raise Conflict(f"another process holds {path}", hint="wait for it, or end it")
        time.sleep(PAUSE_S)
    try:
        yield
    finally:
        os.close(descriptor)


def taken(path: Path) -> int | None:
    """Take the lock `path` (made when missing) and return the descriptor whose close frees it.

    None while another holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the file that is locked is the one that others will find."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


__all__ = ["PAUSE_S", "locked", "taken"]
