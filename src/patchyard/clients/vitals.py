"""How a local environment is: whether its toolbox lives, and whether somebody listens there."""

import asyncio
import contextlib
import os
from pathlib import Path

from patchyard.clients.berths import Station, berth_directory, from_details, group_of
from patchyard.clients.process import read_stat
from patchyard.clients.shared_sockets import ToolboxSocket
from patchyard.domain.environment import EnvironmentHandle
from patchyard.domain.usage import Health

CONNECT_S = 1.0
KILLED_FILES = ("memory.oom_control", "memory.events")  # of control groups, either version


async def health_of(station: Station, handle: EnvironmentHandle, process: str) -> Health:
    """Return how the environment is; `process` names its toolbox among the handle's details."""
    return await asyncio.to_thread(_health, station, handle, process)


def _health(station: Station, handle: EnvironmentHandle, process: str) -> Health:
    found = from_details(handle, process)
    is_alive = found is not None and found.is_alive
    berth = berth_directory(station, handle.environment_id)
    path = berth / Path(str(handle.details.get("socket", ""))).name
    return Health(
        is_alive=is_alive,
        answers=is_alive and path != berth and answers(path),
        since=_began(found.pid) if is_alive and found else None,
        limit="" if is_alive else limit_of(group_of(handle)),
    )


def limit_of(group: tuple[str, ...]) -> str:
    """Return which limit has killed in a control group; empty where none is known to."""
    for place in group:
        for name in KILLED_FILES:
            with contextlib.suppress(OSError):
                rows = [line.split() for line in Path(place, name).read_text().splitlines()]
                if any(row[0] == "oom_kill" and int(row[1]) for row in rows if len(row) > 1):
                    return "memory"
    return ""


def _began(pid: int) -> float | None:
    """Return when a process began, in seconds since the epoch."""
    stat = read_stat(pid)
    if stat is None:
        return None
    with Path("/proc/stat").open("rb") as file:
        booted = next(int(line.split()[1]) for line in file if line.startswith(b"btime"))
    return booted + stat.started / os.sysconf("SC_CLK_TCK")


def answers(path: Path) -> bool:
    """Whether a process listens at that socket; it knows nothing of who asked."""
    with ToolboxSocket() as connection:
        connection.settimeout(CONNECT_S)
        try:
            descriptor = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            connection.connect(f"/proc/self/fd/{descriptor}/{path.name}")  # whatever its length
        except (ConnectionError, FileNotFoundError):
            return False
        except OSError:
            return True  # too many wait there already
        finally:
            os.close(descriptor)
        return True


__all__ = ["CONNECT_S", "KILLED_FILES", "answers", "health_of", "limit_of"]
