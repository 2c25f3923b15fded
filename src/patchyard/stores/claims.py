"""Claims by file locks: the kernel lets go of them when a process ends, also by `kill -9`."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patchyard.domain.errors import Conflict


class FileClaims:
    """contracts.claims.Claims with one lock file a plan under `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def claim(self, plan_id: str) -> Iterator[None]:
        """See contracts.claims.Claims."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path(plan_id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _locked(descriptor, fcntl.LOCK_EX):
                if not _locked(descriptor, fcntl.LOCK_SH):  # no mere look by `is_claimed`
                    raise Conflict(
                        f"plan {plan_id} is being worked on by another process"
                        f" ({os.pread(descriptor, 100, 0).decode() or 'unknown'})",
                        hint=f"follow it with `agents plan watch {plan_id}`, or stop it with"
                        f" `agents plan cancel {plan_id}`",
                    )
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.sched_yield()
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()}".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def is_claimed(self, plan_id: str) -> bool:
        """See contracts.claims.Claims."""
        try:
            descriptor = os.open(self._path(plan_id), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return not _locked(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def _path(self, plan_id: str) -> Path:
        return self._folder / f"{plan_id}.lock"


def _locked(descriptor: int, kind: int) -> bool:
    """Take a lock without waiting for it; return whether it is ours."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


__all__ = ["FileClaims"]
