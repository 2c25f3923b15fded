"""What lay in folders, remembered for as long as the kernel vouches that nothing else lies there.

Each change of an entry moves the folder's time of change (ctime), which no user can set. What links
lead to, and what is in files, is not remembered. Knows neither git nor what is looked for.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.clients.boot import boot_id
from patchyard.clients.filesystems import mount_id, mounted

KINDS = frozenset({"ext2", "ext3", "ext4", "tmpfs", "xfs"})
"""File systems whose kernel moves a folder's ctime at each change of an entry, by its own clock.

Not btrfs: a snapshot has the inodes and times of what it was made of, and may get the number of a
subvolume that was deleted. Not overlay, FUSE or those of a network: others write below them.
"""
LOOP = "/dev/loop"  # of a file, which its owner can write to beneath the file system
SETTLED_NS = 2 * 10**9  # a younger time may stay as it is at the next change (ext3: whole seconds)
STEP_NS = 10**9  # that the clock may have been put back since
MOST_NAMES = 100_000  # folders and names that are remembered at once
OPEN_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
Key = tuple[int, int]  # device and inode


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """What lies in one folder; only names, by what the entry itself is."""

    count: int = 0  # of all entries
    folders: Sequence[str] = ()
    others: Sequence[str] = ()  # links, and what is neither file nor folder
    dotted: Sequence[str] = ()  # files whose names begin with a dot
    files: Sequence[str] = ()  # the other files; empty where they were not asked for

    @property
    def names(self) -> int:
        """How much there is to remember."""
        return 1 + len(self.folders) + len(self.others) + len(self.dotted)


def clocks() -> tuple[int, int]:
    """Return the time of day and the time since boot, in nanoseconds."""
    return time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def mount_of(device: int, folder: Path) -> str:
    """Return a name of the mounted file system, empty where its times vouch for nothing."""
    kind, source = mounted(f"{os.major(device)}:{os.minor(device)}")
    if kind not in KINDS or source.startswith(LOOP):
        return ""
    return f"{kind} {mount_id(folder)}"


class Listings:
    """The memory; threads may share it. `clock` and `mount_of` are as the functions here."""

    def __init__(
        self,
        *,
        clock: Callable[[], tuple[int, int]] = clocks,
        mount_of: Callable[[int, Path], str] = mount_of,
    ) -> None:
        """Remember nothing yet."""
        self.clock = clock
        self.mount_of = mount_of
        self.is_changed = False  # since it was last written down
        self._known: dict[Key, tuple[int, Listing]] = {}  # with the folder's ctime
        self._mounts: dict[int, str] = {}  # by device
        self._offset: int | None = None  # of the time of day to that since boot
        self._names = 0
        self._lock = threading.Lock()

    def look(self) -> "Look":
        """Begin to look through folders."""
        now, since_boot = self.clock()
        with self._lock:
            self._set_clock(now - since_boot)
        return Look(self)

    def _set_clock(self, offset: int) -> None:
        """Forget all where the clock was put back: times may come again that have been."""
        if self._offset is not None and offset < self._offset - STEP_NS:
            self._known, self._names, self._offset = {}, 0, None
        self._offset = offset if self._offset is None else max(self._offset, offset)

    def mounted(self, device: int, mount: str) -> None:
        """Forget what lay on a device where another file system is mounted now."""
        with self._lock:
            if self._mounts.get(device, mount) != mount:
                self._keep({key: row for key, row in self._known.items() if key[0] != device})
            self._mounts[device] = mount

    def known(self, status: os.stat_result) -> Listing | None:
        """Return what lies in a folder of that status, if it is remembered."""
        known = self._known.get((status.st_dev, status.st_ino))
        return known[1] if known and known[0] == status.st_ctime_ns else None

    def remember(self, status: os.stat_result, listing: Listing) -> None:
        """Keep what lay in a folder that had this status before it was listed; not its files."""
        now, since_boot = self.clock()
        if now - status.st_ctime_ns <= SETTLED_NS:
            return
        key = (status.st_dev, status.st_ino)
        with self._lock:
            self._set_clock(now - since_boot)
            if key in self._known:
                self._names -= self._known.pop(key)[1].names
            if self._names + listing.names > MOST_NAMES:
                self._known, self._names = {}, 0
            if listing.names <= MOST_NAMES:
                self._names += listing.names
                self._known[key] = (status.st_ctime_ns, listing)
                self.is_changed = True

    def _keep(self, known: dict[Key, tuple[int, Listing]]) -> None:
        self._known = known
        self._names = sum(listing.names for _, listing in known.values())

    def written(self) -> dict[str, Any]:
        """Return all as data for JSON, and count it as written down."""
        with self._lock:
            self.is_changed = False
            rows = [
                [*key, at, each.count, each.folders, each.others, each.dotted]
                for key, (at, each) in self._known.items()
            ]
            mounts = list(self._mounts.items())
            return {"boot": boot_id(), "offset": self._offset or 0, "mounts": mounts, "rows": rows}

    def read(self, data: dict[str, Any]) -> None:
        """Take over what another process of this boot wrote down; data of any other form is none.

        Raises LookupError, TypeError or ValueError for data of another form, and remembers nothing.
        """
        if data["boot"] != boot_id():
            return
        known = {
            (int(device), int(inode)): (
                int(at),
                Listing(
                    count=int(count),
                    folders=_names(folders),
                    others=_names(others),
                    dotted=_names(dotted),
                ),
            )
            for device, inode, at, count, folders, others, dotted in data["rows"]
        }
        mounts = {int(device): str(mount) for device, mount in data["mounts"]}
        offset = int(data["offset"])
        with self._lock:
            self._mounts, self._offset = mounts, offset
            self._keep(known)


class Look:
    """One look through folders, with the file systems that are mounted meanwhile."""

    def __init__(self, listings: Listings) -> None:
        """Begin it; see Listings.look."""
        self._listings = listings
        self._vouching: dict[int, bool] = {}  # by device

    def within(self, folder: str, status: os.stat_result) -> Listing:
        """Return what lies in a folder that `stat` says this of. Raises OSError."""
        if self._vouches(status.st_dev, folder):
            known = self._listings.known(status)
            if known is not None:
                return known
        return self.anew(folder)

    def anew(self, folder: str, *, with_files: bool = False) -> Listing:
        """Return what lies in a folder, without a look at what is remembered. Raises OSError."""
        descriptor = os.open(folder, OPEN_LISTED)
        try:
            before = os.fstat(descriptor)  # what changes from here on has another time
            listing = _listed(descriptor, with_files=with_files)
        finally:
            os.close(descriptor)
        if not with_files and self._vouches(before.st_dev, folder):
            self._listings.remember(before, listing)
        return listing

    def _vouches(self, device: int, folder: str) -> bool:
        if device not in self._vouching:
            mount = self._listings.mount_of(device, Path(folder))
            if mount:
                self._listings.mounted(device, mount)
            self._vouching[device] = mount != ""
        return self._vouching[device]


def _listed(descriptor: int, *, with_files: bool = False) -> Listing:
    """List an open folder. Raises OSError."""
    folders: list[str] = []
    others: list[str] = []
    dotted: list[str] = []
    files: list[str] = []
    count = 0
    with os.scandir(descriptor) as entries:
        for entry in entries:
            count += 1
            if entry.is_file(follow_symlinks=False):  # most are
                if entry.name[0] == ".":
                    dotted.append(entry.name)
                elif with_files:
                    files.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                others.append(entry.name)
    return Listing(
        count=count,
        folders=tuple(folders),
        others=tuple(others),
        dotted=tuple(dotted),
        files=tuple(files),
    )


def _names(said: object) -> tuple[str, ...]:
    if not isinstance(said, list) or not all(isinstance(name, str) for name in said):
        raise TypeError(said)
    return tuple(said)


__all__ = ["Listing", "Listings", "Look", "clocks", "mount_of"]
