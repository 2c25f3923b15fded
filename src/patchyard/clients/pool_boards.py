"""What waits in the pools of workers, for other processes to see: a file each, held by its lock.

The kernel frees the lock of a worker that is gone, so nobody is told of a pool that is not there.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from patchyard.clients.locks import locked, taken
from patchyard.domain.codec import from_json, to_json
from patchyard.domain.errors import JournalBroken
from patchyard.domain.pooling import PoolState
from patchyard.toolbox.wire import loaded

FOLDER = "pools"  # in the home
ENDING = ".json"


@contextlib.contextmanager
def board(home: Path, name: str) -> Iterator[Callable[[PoolState], None]]:
    """Yield what tells others how a pool stands; `name` is of this process alone."""
    place = home / FOLDER / f"{name}{ENDING}"

    def show(state: PoolState) -> None:
        with contextlib.suppress(OSError):  # a full disk keeps no plan from a place that waits
            place.write_text(json.dumps(to_json(state)), encoding="utf-8")

    with locked(place):
        try:
            yield show
        finally:
            place.unlink(missing_ok=True)


def boards(home: Path) -> Sequence[PoolState]:
    """Return how the pools of living workers stand; what dead ones left is removed."""
    found = []
    for place in sorted((home / FOLDER).glob(f"*{ENDING}")):
        descriptor = taken(place)
        if descriptor is not None:
            place.unlink(missing_ok=True)
            os.close(descriptor)
            continue
        with contextlib.suppress(FileNotFoundError, JournalBroken, ValueError):  # just written
            found.append(from_json(PoolState, loaded(place.read_bytes())))
    return found


def pools_of(home: Path, project: str) -> Sequence[PoolState]:
    """Return the pools that have places of a project, with these alone."""
    found = (
        replace(pool, projects=tuple(row for row in pool.projects if row.project == project))
        for pool in boards(home)
    )
    return [pool for pool in found if pool.projects]


__all__ = ["ENDING", "FOLDER", "board", "boards", "pools_of"]
