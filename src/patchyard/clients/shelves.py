"""Folders of ours that are made once, used by many, and returned when nobody has for a while.

Beside each thing NAME lie `.NAME.lock` and `.NAME.used`. The latter is dated when NAME was last
asked for, and names every installation that did: a folder may serve several.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from patchyard.clients.locks import locked
from patchyard.clients.removal import GONE, remove_tree, set_aside

LOCK, USED = ".lock", ".used"


class Shelf:
    """One folder of such things."""

    def __init__(self, folder: Path, label: str, *, beside: tuple[str, ...] = ()) -> None:
        """Take the folder, made when first needed, and what names this installation: one line.

        `beside` ends the names of further files, `.NAME` and that, which go with the thing.
        """
        self.folder = folder
        self._ends = (*beside, USED, LOCK)
        self._label = label.encode("utf-8", "backslashreplace").replace(b"\n", b"\\n")

    @contextlib.contextmanager
    def using(self, name: str) -> Iterator[Path]:
        """Date the use of NAME, and yield its place; within the block nobody returns it."""
        with locked(self.folder / f".{name}{LOCK}"):
            self._mark(name)
            yield self.folder / name

    def _mark(self, name: str) -> None:
        mark = self.folder / f".{name}{USED}"
        if self._label in self._users(name):
            os.utime(mark)
            return
        with mark.open("ab") as file:
            file.write(self._label + b"\n")

    def _users(self, name: str) -> list[bytes]:
        try:
            return (self.folder / f".{name}{USED}").read_bytes().splitlines()
        except FileNotFoundError:
            return []

    def is_shared(self, name: str) -> bool:
        """Whether another installation has used NAME too."""
        return any(user != self._label for user in self._users(name))

    def names(self) -> list[str]:
        """Return the things that are complete."""
        return sorted(name for name in self._listed() if not name.startswith("."))

    def remains(self) -> list[Path]:
        """Return what a process that was killed has left of one it was deleting."""
        return [self.folder / name for name in self._listed() if name.startswith(GONE)]

    def _listed(self) -> list[str]:
        try:
            return [place.name for place in self.folder.iterdir()]
        except FileNotFoundError:
            return []

    def used(self, name: str) -> float:
        """Return when NAME was last asked for, in seconds since the epoch."""
        for place in (self.folder / f".{name}{USED}", self.folder / name):
            with contextlib.suppress(FileNotFoundError):
                return place.stat().st_mtime
        return time.time()

    def give_back(self, name: str, *, unused_since: float) -> bool:
        """Delete NAME and what lies beside it, unless somebody asked for it after that moment.

        Killed in between it leaves nothing that could be taken for complete.
        """
        with locked(self.folder / f".{name}{LOCK}"):
            if self.is_shared(name) or self.used(name) > unused_since:
                return False
            place = self.folder / name
            gone = [set_aside(place)] if os.path.lexists(place) else []
            for end in self._ends:
                (self.folder / f".{name}{end}").unlink(missing_ok=True)
        for each in gone:
            remove_tree(each)
        return True


__all__ = ["Shelf"]
