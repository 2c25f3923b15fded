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
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + timeout_s
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _take(descriptor, path, deadline)
            if _is_at(descriptor, path):
                yield
                return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the file that is locked is the one that others will find."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _take(descriptor: int, path: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Conflict(
                    f"another process holds {path}", hint="wait for it, or end it"
                ) from None
            time.sleep(PAUSE_S)
        else:
            return


__all__ = ["locked"]
