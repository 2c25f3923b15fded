"""How much may still come home to a workspace from where a copy of it is, and what found no room.

Who writes the files here holds the limit `disk`: what a far side says of their sizes is a claim.
"""

import os
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from patchyard.clients.growth import Disk
from patchyard.domain.environment import EnvironmentHandle, Limits
from patchyard.domain.limit_hits import Hit
from patchyard.domain.meanings import restored
from patchyard.domain.sizes import shown_bytes
from patchyard.toolbox.footing import Footing
from patchyard.toolbox.holes import BLOCK_BYTES
from patchyard.toolbox.trees import FILE, Entry
from patchyard.toolbox.twins import Twin


class HomeRoom:
    """The room of one workspace for one environment, as `disk` of its handle bounds it."""

    def __init__(self, limit: int | None = None, disk: Disk | None = None) -> None:
        """Without a limit everything has room."""
        self._limit = limit
        self._disk = disk
        self._come = 0  # bytes of blocks that came at most, since the workspace was looked through
        self._begun_with = 0
        self._grown = 0  # by which it had grown when an exchange began
        self._refused: dict[str, Entry] = {}
        self._lacked: dict[str, tuple[Entry, int]] = {}  # the room that was too little for it
        self._hit: Hit | None = None  # not told yet
        self._descriptor = None if disk is None else _opened(disk.folder)

    @classmethod
    def of(cls, handle: EnvironmentHandle, source: str) -> "HomeRoom":
        """Return the room of the workspace at `source`, as it is before anything comes."""
        limits = restored(Limits, handle.details.get("limits") or {})
        return cls(limits.disk_bytes, Disk(replace(handle, workspace_path=source), None))

    def close(self) -> None:
        """Let go of the workspace."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _follow(self, disk: Disk) -> None:
        """Find the workspace under its name of now: a plan renames what it gets from the pool."""
        if self._descriptor is not None:
            disk.folder = str(Path(f"/proc/self/fd/{self._descriptor}").readlink())

    def consider(self, entries: Mapping[str, Entry]) -> None:
        """Keep in mind of what was refused what is still there as it was; `entries` is all."""
        self._refused = {}
        self._lacked = {
            path: kept for path, kept in self._lacked.items() if entries.get(path) == kept[0]
        }

    def begin(self, home: Twin, entries: Mapping[str, Entry]) -> None:
        """Let `home` write as much as there is room for; `entries` is all that may come."""
        if self._limit is None or self._disk is None:
            return
        self._follow(self._disk)
        most = sum(entry.size + 2 * BLOCK_BYTES for entry in entries.values())
        estimate = self._disk.estimate(None, self._disk.free())
        self._grown = max(estimate, self._come)
        if self._disk.is_tight or self._grown + most > self._limit:
            self._disk.look_through(estimate)
            self._come = self._grown = self._disk.grown or 0
        home.room = self._begun_with = max(0, self._limit - self._grown)
        home.frees = self._frees
        left = home.room
        self._refused = {path: kept[0] for path, kept in self._lacked.items() if kept[1] >= left}

    def end(self, home: Twin) -> None:
        """Take in what has come."""
        if home.room is not None:
            self._come += max(0, self._begun_with - home.room)

    def _frees(self, path: str) -> int:
        """Return what the file at `path` takes of the space that is counted."""
        if self._disk is None:
            return 0
        self._follow(self._disk)
        footing = Footing(self._disk.folder)
        try:
            at, name = footing.parent(path)
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
        except OSError:
            return 0
        finally:
            footing.close()
        is_all = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        return status.st_blocks * 512 if is_all else 0

    def has_refused(self, path: str) -> bool:
        """Whether there is no room for it, or for a folder above it."""
        if not self._refused:
            return False
        above = (path[:at] for at, char in enumerate(path) if char == "/")
        return path in self._refused or any(each in self._refused for each in above)

    def refuse(self, path: str, entry: Entry, home: Twin) -> None:
        """Note that there is no room for it."""
        left, limit = home.room or 0, self._limit or 0
        self._refused[path] = entry
        if path not in self._lacked and self._hit is None:
            size = entry.size if entry.kind == FILE else BLOCK_BYTES
            used = max(limit - left + size, limit + 1)
            self._hit = Hit(limit="disk", used=used, allowed=limit, seen_by="watch")
        self._lacked[path] = (entry, left)

    @property
    def refused(self) -> Collection[str]:
        """The paths that there was no room for, up to date; to look one up takes no search."""
        return self._refused.keys()

    @property
    def left_out(self) -> Sequence[tuple[str, str]]:
        """The same with the reason, for people."""
        why = f"no room: the limit `disk` is {shown_bytes(self._limit or 0)}"
        return [(path, why) for path in sorted(self._refused)]

    def news(self) -> Hit | None:
        """Return the limit that something was refused for, once."""
        hit, self._hit = self._hit, None
        return hit


def _opened(folder: str) -> int | None:
    try:
        return os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None


__all__ = ["HomeRoom"]
