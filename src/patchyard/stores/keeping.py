"""What lies on the machine of kept contents, for the janitor."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from patchyard.clients.removal import remove_tree, set_aside, size_of
from patchyard.domain.ids import is_ulid
from patchyard.domain.retention import Family, Found


class CheckpointKeeper:
    """contracts.leftovers.Keeper over the contents that plans' checkpoints name."""

    family = Family.CHECKPOINTS

    def __init__(self, folder: Path) -> None:
        """Take the folder of FileBlobSpaces: it belongs to one home alone."""
        self._folder = folder

    async def found(self) -> Sequence[Found]:
        """See contracts.leftovers.Keeper."""
        with contextlib.suppress(FileNotFoundError):
            return [_one(place) for place in sorted(self._folder.iterdir()) if is_ulid(place.name)]
        return []

    async def size(self, found: Found) -> int:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(size_of, Path(found.place))

    async def give_back(self, found: Found, *, unused_since: float) -> bool:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(_give_back, Path(found.place), unused_since)


def _give_back(place: Path, unused_since: float) -> bool:
    with contextlib.suppress(FileNotFoundError):
        if place.stat().st_mtime > unused_since:
            return False
        remove_tree(set_aside(place))
    return True


def _one(place: Path) -> Found:
    used = place.stat().st_mtime
    return Found(
        family=Family.CHECKPOINTS,
        name=place.name,
        place=str(place),
        plan_id=place.name,
        used=used,
    )


__all__ = ["CheckpointKeeper"]
