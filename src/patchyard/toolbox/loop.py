"""One thread's waiting: descriptors, timers, and generators that run a step at a time."""

from __future__ import annotations

import heapq
import itertools
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator

READ = select.EPOLLIN
WRITE = select.EPOLLOUT


class Timer:
    """A call to come; `cancel` takes it back."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Take the call back; harmless when it has been made."""
        self.callback = None


class Loop:
    """Calls back when a descriptor is ready or a time has come; runs stepwise work in between."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._watched: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._steps: list[Iterator[float]] = []

    def watch(self, fd: int, handler: Callable[[int], None], events: int = READ) -> None:
        """Call `handler` with the events whenever `fd` is ready for `events`."""
        if fd in self._watched:
            self._poll.modify(fd, events)
        else:
            self._poll.register(fd, events)
        self._watched[fd] = handler

    def unwatch(self, fd: int) -> None:
        """Stop watching `fd`; do so before closing it."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once after `delay_s`."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._numbers), timer))
        return timer

    def step_through(self, work: Iterator[float]) -> None:
        """Run `work` a step a turn until it is exhausted; each says how long to wait then."""
        self._steps.append(work)

    def turn(self) -> None:
        """Wait for the next event and handle what is ready."""
        for fd, events in self._poll.poll(self._patience()):
            handler = self._watched.get(fd)
            if handler is not None:
                handler(events)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                callback()
        steps, self._steps = self._steps, []
        for work in steps:
            self._take_step(work)

    def _take_step(self, work: Iterator[float]) -> None:
        delay_s = next(work, None)
        if delay_s:
            self.later(delay_s, lambda: self._steps.append(work))
        elif delay_s is not None:
            self._steps.append(work)

    def _patience(self) -> float:
        if self._steps:
            return 0.0
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return -1.0
        return max(0.0, self._timers[0][0] - time.monotonic())

    def close(self) -> None:
        """Release the poll's descriptor."""
        self._poll.close()


__all__ = ["READ", "WRITE", "Loop", "Timer"]
