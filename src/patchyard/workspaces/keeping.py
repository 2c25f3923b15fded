"""What lies on the machine of bases, layers, stores and workspaces, for the janitor."""

import asyncio
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from patchyard.clients.clones import FOLDER
from patchyard.clients.mounts import unmount
from patchyard.clients.removal import mounts_below, size_of
from patchyard.clients.shelves import Shelf
from patchyard.domain.retention import Family, Found, owner_of
from patchyard.workspaces import materials
from patchyard.workspaces.bases import base_shelf
from patchyard.workspaces.materials import LABEL
from patchyard.workspaces.store import store_shelf


def shared_keepers(home: Path, folder: Path) -> "list[ShelfKeeper]":
    """Return the keepers of what plans share: in the home, and beside the workspaces."""
    label = str(home)
    bases = home / "bases"
    return [
        ShelfKeeper(Family.BASE, lambda: [base_shelf(bases, name) for name in _listed(bases)]),
        ShelfKeeper(Family.LAYER, lambda: [Shelf(folder / ".layers", label)]),
        CloneKeeper(home),
        ShelfKeeper(Family.STORE, lambda: [store_shelf(home / "trees")]),
    ]


class ShelfKeeper:
    """contracts.leftovers.Keeper over shelves: shared things that can be made again."""

    def __init__(self, family: Family, shelves: Callable[[], Sequence[Shelf]]) -> None:
        self.family = family
        self._shelves = shelves  # those that there are by now

    async def found(self) -> Sequence[Found]:
        """See contracts.leftovers.Keeper."""
        return [
            Found(
                family=self.family,
                name=name,
                place=str(shelf.folder / name),
                used=shelf.used(name),
                is_labelled=not shelf.is_shared(name),
            )
            for shelf in self._shelves()
            for name in shelf.names()
        ]

    async def size(self, found: Found) -> int:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(size_of, Path(found.place))

    async def give_back(self, found: Found, *, unused_since: float) -> bool:
        """See contracts.leftovers.Keeper."""
        folder = Path(found.place).parent
        shelf = next(shelf for shelf in self._shelves() if shelf.folder == folder)
        return await asyncio.to_thread(shelf.give_back, found.name, unused_since=unused_since)


class CloneKeeper(ShelfKeeper):
    """contracts.leftovers.Keeper over clones; one with work that lies nowhere else is kept."""

    def __init__(self, home: Path) -> None:
        shelf = Shelf(home / FOLDER, str(home))
        super().__init__(Family.CLONE, lambda: [shelf])

    async def found(self) -> Sequence[Found]:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(self._with_reasons, await super().found())

    def _with_reasons(self, found: Sequence[Found]) -> Sequence[Found]:
        reasons = ((each, _kept_for(Path(each.place))) for each in found)
        return [replace(each, details={"kept": why}) if why else each for each, why in reasons]


def _kept_for(folder: Path) -> str:
    """Return what lies in a clone that its server does not have, empty for nothing."""
    for git_dir in folder.glob("*/.git"):
        packed = git_dir / "packed-refs"
        has_packed = packed.is_file() and b" refs/heads/" in packed.read_bytes()
        loose = (each for each in (git_dir / "refs/heads").rglob("*") if each.is_file())
        if has_packed or next(loose, None):
            return "a branch lies in it: fetch or push that, then delete it there"
        if next(git_dir.parent.glob("*.patch"), None):
            return "a patch lies in it: move that away"
    return ""


class WorkspaceKeeper:
    """contracts.leftovers.Keeper over the folder of workspaces."""

    family = Family.WORKSPACE

    def __init__(self, folder: Path, label: str | None) -> None:
        self._folder = folder
        self._label = label

    async def found(self) -> Sequence[Found]:
        """See contracts.leftovers.Keeper."""
        places = _workspaces(self._folder)
        seen = (_one(self.family, place, place, self._label) for place in places)
        return [each for each in seen if each is not None]

    async def size(self, found: Found) -> int:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(size_of, Path(found.place))

    async def give_back(self, found: Found, *, unused_since: float) -> bool:
        """See contracts.leftovers.Keeper."""
        del unused_since  # whoever asks owns the plan
        await asyncio.to_thread(self._remove, Path(found.place))
        return True

    def _remove(self, place: Path) -> None:
        if os.geteuid() == 0:
            unmount(place / "root")
        materials.delete(place)


class MountKeeper:
    """contracts.leftovers.Keeper of the mounts of workspaces."""

    family = Family.MOUNT

    def __init__(self, folder: Path, label: str | None) -> None:
        self._folder = folder
        self._label = label

    async def found(self) -> Sequence[Found]:
        """See contracts.leftovers.Keeper."""
        mounted = set(mounts_below(self._folder))
        places = [each for each in _workspaces(self._folder) if str(each / "root") in mounted]
        seen = (_one(self.family, place, place / "root", self._label) for place in places)
        return [each for each in seen if each is not None]

    async def size(self, found: Found) -> int:
        """See contracts.leftovers.Keeper. A mount takes no room of its own."""
        del found
        return 0

    async def give_back(self, found: Found, *, unused_since: float) -> bool:
        """See contracts.leftovers.Keeper."""
        del unused_since
        await asyncio.to_thread(unmount, Path(found.place))
        return True


def _one(family: Family, workspace: Path, place: Path, label: str | None) -> Found | None:
    """Describe a workspace, None when its plan has removed it meanwhile.

    Without a `label` to look for, the whole folder is this home's.
    """
    note = workspace / "own" / LABEL
    try:
        return Found(
            family=family,
            name=workspace.name,
            place=str(place),
            plan_id=owner_of(workspace.name),
            used=workspace.lstat().st_mtime,
            is_labelled=label is None
            or (note.is_file() and note.read_bytes() == os.fsencode(label)),
        )
    except FileNotFoundError:
        return None


def _workspaces(folder: Path) -> list[Path]:
    """Return the folders of workspaces that this user made."""
    found = []
    for name in _listed(folder):
        place = folder / name
        if owner_of(name) and _is_own_folder(place):
            found.append(place)
    return found


def _is_own_folder(place: Path) -> bool:
    try:
        facts = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(place.name for place in folder.iterdir())
    except FileNotFoundError:
        return []


__all__ = ["CloneKeeper", "MountKeeper", "ShelfKeeper", "WorkspaceKeeper", "shared_keepers"]
