"""Ends what commands have left running, so that there is room again."""

from __future__ import annotations

import time

from . import arguments, processes
from .answers import success
from .freezing import everybody

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generator

    from .room import Room

LONGEST_S = 2.0
PAUSE_S = 0.002


def sweep(room: Room, args: dict[str, Any]) -> Generator[float, None, dict[str, Any]]:
    """Kill what commands that are over have left, and with `jobs` also those that run on."""
    if arguments.flag(args, "jobs"):
        for job in list(room.jobs.values()):
            job.kill("LIMIT")
            while job.is_running:
                yield PAUSE_S
        for server in list(room.servers.values()):
            server.talker.end("it was ended for a limit")
    return success("swept", ended=clear(room))


def clear(room: Room) -> int:
    """Kill whoever belongs to no running command, job or shell; return how many there were."""
    total = 0
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        found = processes.kill_all(lambda table: _left(room, table))
        room.children.reap()
        if not found:
            break
        total += found
        time.sleep(PAUSE_S)
    return total


def _left(room: Room, table: dict[int, processes.Process]) -> set[int]:
    left = everybody(table)
    for command in room.running:
        left -= command.members(table)
    for shell in room.shells.values():
        left -= shell.members(table)
    for server in room.servers.values():
        left -= server.talker.members(table)
    return left


__all__ = ["LONGEST_S", "PAUSE_S", "clear", "sweep"]
