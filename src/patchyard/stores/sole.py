"""The right to alter what a plan has outside the journal, for one owner at a time.

The journal refuses what an owner appends that was taken for dead. Trees, environments and checkouts
refuse nothing: an owner that is stopped while it changes them would go on with that when it comes
back. Its successor waits until it has let go, and ends it where it never would.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from patchyard.clients.locks import PAUSE_S, end_stopped_holders, holders, taken
from patchyard.domain.errors import Conflict

LET_GO_S = 10.0  # for an owner of before to finish what it was at


class Sole:
    """A lock of the kernel, for all tasks of one owner together."""

    def __init__(self, path: Path) -> None:
        """Take the lock's file, made when first needed and kept until `forget`."""
        self._path = path
        self._taking = asyncio.Lock()
        self._inside = 0  # tasks of ours that rely on it
        self._descriptor: int | None = None

    @asynccontextmanager
    async def within(self) -> AsyncIterator[None]:
        """Hold it for the block. Raises Conflict when an owner of before does not let go."""
        async with self._taking:
            if not self._inside:
                self._descriptor = await self._taken()
            self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside and self._descriptor is not None:
                os.close(self._descriptor)

    async def _taken(self) -> int | None:
        """Return what holds it; None where the disk has no room for the file.

        What a plan has must come to its end there too, as if nobody of before were left.
        """
        patience = LET_GO_S
        while True:
            try:
                descriptor = taken(self._path)
            except OSError:
                return None
            if descriptor is not None:
                return descriptor
            if patience <= 0:
                raise self._conflict()
            end_stopped_holders(self._path)
            patience -= PAUSE_S
            await asyncio.sleep(PAUSE_S)

    def forget(self) -> None:
        """Delete the file once its plan is not owned any more, unless somebody needs it by now."""
        with contextlib.suppress(OSError):
            descriptor = taken(self._path)
            if descriptor is not None:
                self._path.unlink()  # who opened it meanwhile sees that, and makes another
                os.close(descriptor)

    def _conflict(self) -> Conflict:
        found = " ".join(map(str, holders(self._path)))
        who = f"process {found}" if found else "a process"
        return Conflict(
            f"{who}, which owned the plan before, does not let go of its files",
            hint=f"end it: `kill -9 {found or f'$(fuser {self._path})'}`",
        )


__all__ = ["LET_GO_S", "Sole"]
