"""How much the workspace of an environment has grown."""

import asyncio
import os
import threading
import time
from pathlib import Path

from patchyard.clients.removal import size_of
from patchyard.domain.environment import EnvironmentHandle, Limits
from patchyard.domain.meanings import restored
from patchyard.domain.usage import Reading

SHARE = 8  # of what is left of `disk` may be written before the workspace is looked through again
REST = 10  # times what a look took is waited for before the next one
USUAL = Limits().disk_bytes or 0


class Disk:
    """How much the workspace has grown. Looked through only when it may have grown much.

    What was written to it is no more than what was written at all, and than what its disk has less;
    the higher of the two says when it is looked through again.
    """

    def __init__(self, handle: EnvironmentHandle, written: int | None) -> None:
        self.folder = str(handle.details.get("written") or handle.workspace_path)
        self._is_apart = bool(handle.details.get("is_apart"))  # nothing of the base lies there
        self._limit = restored(Limits, handle.details.get("limits") or {}).disk_bytes
        self._first_written = written or 0
        self._first_free = self.free()
        self._looked_at: int | None = None  # the estimate when it was looked through
        self._next = 0.0
        self._base: int | None = 0 if self._is_apart else None  # what lay there in the beginning
        self._measuring: threading.Thread | None = None
        if self.is_tight and not self._is_apart:  # of a large tree that takes a while
            self._measuring = threading.Thread(target=self._measure, daemon=True)
            self._measuring.start()
        self.grown: int | None = None

    @property
    def is_tight(self) -> bool:
        """Whether somebody asked for less than is usual."""
        return self._limit is not None and self._limit < USUAL

    def _measure(self) -> None:
        self._base = size_of(Path(self.folder))

    def free(self) -> int:
        """Return the bytes that are free on the disk it lies on; 0 where nobody can say."""
        try:
            facts = os.statvfs(self.folder)
        except OSError:
            return 0
        return facts.f_bavail * facts.f_frsize

    def estimate(self, written: int | None, free: int) -> int:
        """Return what it has grown by at most."""
        return max(0, (written or 0) - self._first_written, self._first_free - free)

    def is_due(self, estimate: int) -> bool:
        """Whether it should be looked through: so much was written, or too much lay there."""
        if self._limit is None:
            return False
        left = max(0, self._limit - (self.grown or 0))
        return self._is_over or estimate - (self._looked_at or 0) > left / SHARE

    @property
    def _is_over(self) -> bool:
        """Whether too much lay there when it was looked through: that may be gone by now."""
        return self._limit is not None and (self.grown or 0) > self._limit

    def look(self, estimate: int) -> None:
        """Look it through where that is due, or was never done.

        Where it is tight, always: what others take away meanwhile hides what is written here.
        """
        is_wanted = self._looked_at is None or self.is_tight or self.is_due(estimate)
        begun = time.monotonic()
        is_resting = begun < self._next and not self._is_over  # nobody is stopped by an old look
        if self._limit is None or not is_wanted or is_resting:
            return
        self.look_through(estimate)
        self._next = time.monotonic() + REST * (time.monotonic() - begun)

    def look_through(self, estimate: int) -> None:
        """Look it through. What lay there before is no growth, nor is what was taken away again."""
        size = size_of(Path(self.folder))
        if self._measuring is not None:
            self._measuring.join()
        self.grown = min(size, estimate) if self._base is None else max(0, size - self._base)
        self._looked_at = estimate


class HomeMeter:
    """contracts.environment.Meter of a place whose workspace is a replica: by the tree at home.

    What a command wrote is there once it is over, so while it runs nothing is to be seen.
    """

    def __init__(self, handle: EnvironmentHandle) -> None:
        self._disk = Disk(handle, None)
        self._is_due = False
        # elsewhere no folder in memory has a size of its own: what is full is that machine
        self._has_sizes = bool(handle.details.get("carries"))

    def read(self) -> Reading:
        """See contracts.environment.Meter."""
        self._is_due = self._disk.is_tight
        return Reading(disk_bytes=self._disk.grown, has_room=self._has_sizes, is_due=self._is_due)

    async def look(self) -> Reading:
        """See contracts.environment.Meter."""
        if self._is_due:
            self._is_due = False
            await asyncio.to_thread(self._disk.look_through, 0)
        return Reading(disk_bytes=self._disk.grown, has_room=self._has_sizes)

    def close(self) -> None:
        """Nothing is held."""


__all__ = ["REST", "SHARE", "USUAL", "Disk", "HomeMeter"]
