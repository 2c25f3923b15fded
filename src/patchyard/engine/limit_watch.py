"""Looks at what a place uses while a command runs there, and stops the command at a limit.

A look that fails is made again. Where several in a row fail nothing holds the limits any more: that
ends the command and the plan by name, and never goes unsaid.
"""

import asyncio
import contextlib

from patchyard.contracts.environment import Meter, Toolbox
from patchyard.domain.environment import Limits
from patchyard.domain.errors import EnvironmentBroken, Unavailable
from patchyard.domain.limit_hits import Hit, watched_hit
from patchyard.domain.usage import Reading

FIRST_LOOK_S = 0.25  # most commands are over by then
LOOK_S = 0.25  # between two looks at a command that runs
BLIND_LOOKS = 4  # that fail one after the other until what is looked at is ended


class Looks:
    """Looks by one meter; counts those that fail one after the other."""

    def __init__(self, meter: Meter) -> None:
        """`meter` is closed by who made it."""
        self._meter = meter
        self._failed = 0

    async def look(self) -> Reading | None:
        """Return what the meter sees; None where this look failed, and the next may not.

        Raises Unavailable once so many have failed that limits are not held.
        """
        try:
            reading = await self._meter.look()
        except Exception as error:
            self._failed += 1
            if self._failed < BLIND_LOOKS:
                return None
            said = str(error) or type(error).__name__
            raise Unavailable(
                f"what runs in the environment cannot be looked at any more ({said}): its limits"
                " are not held, so it was ended",
                hint="mend what that says, then carry the plan on: `agents plan resume`",
            ) from error
        self._failed = 0
        return reading

    async def insist(self) -> Reading:
        """As `look`, until one look has not failed."""
        while True:
            reading = await self.look()
            if reading is not None:
                return reading
            await asyncio.sleep(LOOK_S)


class Watch:
    """Looks at one command while it runs, and stops it when it passes a limit."""

    def __init__(
        self, toolbox: Toolbox, looks: Looks | None, limits: Limits, call_id: str, *, began: Reading
    ) -> None:
        """Begin in a moment; `looks` is None where nothing can be looked at."""
        self.hit: Hit | None = None
        self.failed: Exception | None = None  # why the command is not, or was not, held to limits
        self.has_seen = False
        self.memory_bytes = 0  # the most that was seen, where no counter keeps it
        self.processes = 0  # likewise
        self._toolbox = toolbox
        self._limits = limits
        self._call_id = call_id
        self._began = began
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        if looks is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(FIRST_LOOK_S, self._begin, looks)

    def _begin(self, looks: Looks) -> None:
        self._task = asyncio.create_task(self._looking(looks))

    async def _looking(self, looks: Looks) -> None:
        try:
            while True:
                now = await looks.look()
                if now is not None and self.judge(now):
                    break
                await asyncio.sleep(LOOK_S)
        except Unavailable as error:
            self.failed = error
        with contextlib.suppress(EnvironmentBroken):
            await self._toolbox.cancel(self._call_id)

    def judge(self, now: Reading) -> bool:
        """Return whether the command has passed a limit."""
        self.has_seen = True
        self.memory_bytes = max(self.memory_bytes, now.memory_now)
        self.processes = max(self.processes, now.processes_now)
        self.hit = self.hit or watched_hit(self._limits, self._began, now)
        return self.hit is not None

    async def end(self) -> None:
        """Stop looking. What went wrong over it is in `failed`."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            (found,) = await asyncio.gather(self._task, return_exceptions=True)
            if isinstance(found, Exception):
                self.failed = found


__all__ = ["BLIND_LOOKS", "FIRST_LOOK_S", "LOOK_S", "Looks", "Watch"]
