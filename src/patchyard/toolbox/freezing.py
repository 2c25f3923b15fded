"""Stops all that runs here for a moment, so that files can be looked at which nobody changes."""

from __future__ import annotations

import os
import signal

from . import arguments, processes
from .answers import success

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .room import Room

LONGEST_S = 10.0
"""After that all goes on by itself where nothing else is said: who stopped it may have died."""


def freeze(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Stop every process that this toolbox started, and theirs, for `longest_s` at most."""
    longest_s = arguments.number(args, "longest_s", LONGEST_S)
    stopped, is_whole = processes.stop_all(everybody)
    room.stopped.update(stopped)
    if room.thawing is not None:
        room.thawing.cancel()
    room.thawing = room.loop.later(longest_s, lambda: _thaw(room))
    return success("stopped", stopped=len(stopped), is_whole=is_whole)


def thaw(room: Room, _args: dict[str, Any]) -> dict[str, Any]:
    """Let them go on."""
    _thaw(room)
    return success("going on")


def _thaw(room: Room) -> None:
    for pid in room.stopped:
        processes.send(pid, signal.SIGCONT)
    room.stopped.clear()
    if room.thawing is not None:
        room.thawing.cancel()
        room.thawing = None


def everybody(table: dict[int, processes.Process]) -> set[int]:
    """Return everybody: PID 1 of a namespace adopts all, and another toolbox its own orphans."""
    own = os.getpid()
    if own == 1:
        return set(table) - {own}
    return processes.close_over({pid for pid, row in table.items() if row.parent == own}, table)


__all__ = ["LONGEST_S", "everybody", "freeze", "thaw"]
