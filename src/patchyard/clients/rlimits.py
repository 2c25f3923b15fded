"""The bounds of an environment as resource limits of its toolbox, which all below it inherit."""

import math

from patchyard.domain.environment import Limits

LATER, LATER_S = 1.25, 1
"""Where all of a command together is looked at, each of its processes is bounded only after that:
one that was ended by its own limit tells nobody, and the kernel counts its time roughly."""


def resource_limits(
    limits: Limits,
    *,
    bounds_memory: bool,
    bounds_processes: bool,
    others: int = 0,
    is_watched: bool = False,
) -> dict[str, int]:
    """Return limits by their RLIMIT name. Pure.

    `others` are the processes that the same user runs besides, which the kernel counts too. With
    `is_watched` somebody outside looks at the processor time of a whole command.

    The two flags say whether to bound memory and processes here too: a control group does it
    better. Memory is RLIMIT_DATA, as the address space that V8 and others merely reserve is no
    memory used.
    """
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_CPU": _seconds(limits.cpu_seconds, is_watched=is_watched),
        "RLIMIT_DATA": limits.memory_bytes if bounds_memory else None,
        "RLIMIT_NPROC": _number(limits.processes, others) if bounds_processes else None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _seconds(allowed: float | None, *, is_watched: bool) -> int | None:
    if allowed is None:
        return None
    return math.ceil(allowed * LATER) + LATER_S if is_watched else math.ceil(allowed)


def _number(processes: int | None, others: int) -> int | None:
    return None if processes is None else processes + others


__all__ = ["LATER", "LATER_S", "resource_limits"]
