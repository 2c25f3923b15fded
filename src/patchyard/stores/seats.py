"""Processes of this machine as seats: who we are, and the end of one that is stopped."""

import contextlib
import os
import signal

from patchyard.clients.boot import boot_id
from patchyard.clients.process import identify, read_stat
from patchyard.domain.queue import Seat

STOPPED = "T"  # the state of a process that waits for SIGCONT, proc(5)


def seat_here() -> Seat:
    """Return the seat of this very process."""
    own = identify(os.getpid())
    return Seat(
        boot=boot_id(),
        namespace=os.readlink("/proc/self/ns/pid"),  # noqa: PTH115 - it names no file
        pid=os.getpid(),
        started=own.started if own else 0,
    )


def end_stopped(seat: Seat, here: Seat) -> None:
    """Kill the process of this `seat` if it is stopped, and `here` is where its number counts.

    For an owner of plans that holds what others need: by itself it would never let go. Nothing is
    lost, for what it was at is settled as after any other crash.
    """
    if (seat.boot, seat.namespace) != (here.boot, here.namespace) or seat.pid <= 0:
        return
    stat = read_stat(seat.pid)
    if stat is not None and (stat.started, stat.state) == (seat.started, STOPPED):
        with contextlib.suppress(OSError):
            os.kill(seat.pid, signal.SIGKILL)


__all__ = ["end_stopped", "seat_here"]
