"""What environments are made with and that outlives them, for the janitor.

Saved machines (half a gigabyte each), compiled toolboxes, Pythons that are carried along: made once
by content and dated whenever an environment starts from them.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from patchyard.clients.berths import Station
from patchyard.clients.machine_shelf import KINDS, MACHINES
from patchyard.clients.removal import remove_tree, set_aside, size_of
from patchyard.domain.retention import Family, Found

TOOLBOX = re.compile(r"(?:python-)?[0-9a-f]{16}")
MACHINE = re.compile(rf"(?:{'|'.join(KINDS)})[0-9a-f]{{16}}")


class FurnitureKeeper:
    """contracts.leftovers.Keeper over one folder of such things."""

    def __init__(self, family: Family, folder: Path, names: re.Pattern[str]) -> None:
        self.family = family
        self._folder = folder
        self._names = names

    async def found(self) -> Sequence[Found]:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(self._found)

    def _found(self) -> Sequence[Found]:
        return [
            Found(family=self.family, name=place.name, place=str(place), used=used)
            for place in _listed(self._folder)
            if self._names.fullmatch(place.name) and (used := _used(place)) is not None
        ]

    async def size(self, found: Found) -> int:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(size_of, Path(found.place))

    async def give_back(self, found: Found, *, unused_since: float) -> bool:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(taken_away, Path(found.place), unused_since)


def taken_away(
    place: Path, unused_since: float, *, aside: Callable[[Path], Path] = set_aside
) -> bool:
    """Delete `place` unless it was used after that moment, up to the one it was set aside."""
    used = _used(place)
    if used is None:
        return True
    if used > unused_since:
        return False
    gone = aside(place)
    if (_used(gone) or 0.0) > unused_since and not place.exists():
        gone.rename(place)  # an environment was starting from it
        return False
    remove_tree(gone)
    return True


def _listed(folder: Path) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return ()


def _used(place: Path) -> float | None:
    try:
        return place.stat().st_mtime
    except FileNotFoundError:
        return None


def furniture_keepers(station: Station) -> Sequence[FurnitureKeeper]:
    """Return the keepers of what one installation's environments are made with."""
    shelf = station.prepare()
    return (
        FurnitureKeeper(Family.TOOLBOX, shelf, TOOLBOX),
        FurnitureKeeper(Family.MACHINE, shelf / MACHINES, MACHINE),
    )


__all__ = ["MACHINE", "TOOLBOX", "FurnitureKeeper", "furniture_keepers", "taken_away"]
