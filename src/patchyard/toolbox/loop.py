"""One thread's waiting: descriptors, timers, and generators that run a step at a time.

Each callback has an owner, who is told of an exception in it: so that one of a call ends that call
and never the loop. What a callback asks for has the same owner. Without one, an exception goes on.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

    Owner = Callable[[Exception], None] | None

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
MOST_FAILURES = 3  # of one descriptor in a row: it is watched no more, it would fail without end


class Timer:
    """A call to come; `cancel` takes it back."""

    __slots__ = ("callback", "owner")

    def __init__(self, callback: Callable[[], None], owner: Owner) -> None:
        self.callback: Callable[[], None] | None = callback
        self.owner = owner

    def cancel(self) -> None:
        """Take the call back; harmless when it has been made."""
        self.callback = None


class Loop:
    """Calls back when a descriptor is ready or a time has come; runs stepwise work in between."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self.owner: Owner = None  # of what is asked for now
        self._failures: dict[int, int] = {}  # in a row, by descriptor
        self._watched: dict[int, tuple[Callable[[int], None], Owner]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._steps: list[tuple[Iterator[float], Owner]] = []

    @contextlib.contextmanager
    def owned(self, owner: Owner) -> Iterator[None]:
        """Let `owner` be told of exceptions in what is asked for in the block."""
        before, self.owner = self.owner, owner
        try:
            yield
        finally:
            self.owner = before

    def guarded(self, callback: Callable[..., None]) -> Callable[..., None]:
        """Return a callback for others to call: an exception in it goes to who owns it now."""
        owner = self.owner

        def call(*args: Any) -> None:
            self._call(owner, callback, *args)

        return call

    def _call(self, owner: Owner, callback: Callable[..., None], *args: Any) -> bool:
        """Call back; False after an exception, which the owner is told of."""
        with self.owned(owner):
            try:
                callback(*args)
            except Exception as error:
                if owner is None:
                    raise
                with contextlib.suppress(Exception):  # the owner did what it could
                    owner(error)
                return False
        return True

    def watch(self, fd: int, handler: Callable[[int], None], events: int = READ) -> None:
        """Call `handler` with the events whenever `fd` is ready for `events`."""
        if fd in self._watched:
            self._poll.modify(fd, events)
        else:
            self._poll.register(fd, events)
        owner = self._watched[fd][1] if fd in self._watched else self.owner
        self._watched[fd] = handler, owner

    def unwatch(self, fd: int) -> None:
        """Stop watching `fd`; do so before closing it."""
        self._failures.pop(fd, None)
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once after `delay_s`."""
        timer = Timer(callback, self.owner)
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._numbers), timer))
        return timer

    def step_through(self, work: Iterator[float]) -> None:
        """Run `work` a step a turn until it is exhausted; each says how long to wait then."""
        self._steps.append((work, self.owner))

    def turn(self) -> None:
        """Wait for the next event and handle what is ready."""
        for fd, events in self._poll.poll(self._patience()):
            watched = self._watched.get(fd)
            if watched is not None:
                self._handle(fd, events, watched)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                self._call(timer.owner, timer.callback)
        steps, self._steps = self._steps, []
        for work, owner in steps:
            self._call(owner, self._take_step, work)

    def _handle(self, fd: int, events: int, watched: tuple[Callable[[int], None], Owner]) -> None:
        handler, owner = watched
        if self._call(owner, handler, events):
            self._failures.pop(fd, None)
            return
        self._failures[fd] = self._failures.get(fd, 0) + 1
        if self._failures[fd] >= MOST_FAILURES:
            self.unwatch(fd)

    def _take_step(self, work: Iterator[float]) -> None:
        delay_s = next(work, None)
        owner = self.owner
        if delay_s:
            self.later(delay_s, lambda: self._steps.append((work, owner)))
        elif delay_s is not None:
            self._steps.append((work, owner))

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


__all__ = ["MOST_FAILURES", "READ", "WRITE", "Loop", "Timer"]
