"""Which mount of a file system this is: what was not synced before the last one may be lost."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

KINDS = Path("/sys/fs")  # a folder for each kind of file system, with one for each that is mounted
DEVICES = Path("/sys/dev/block")
MOUNTS = Path("/proc/self/mountinfo")


def mount_id(folder: Path) -> str:
    """Return a name of the file system below `folder`, another one each time it is mounted anew.

    The kernel numbers what it shows below /sys/fs upwards for as long as it runs (ext4, xfs, btrfs,
    f2fs). Elsewhere the name is that of the device alone, which a new mount may have again.
    """
    device = folder.stat().st_dev
    return " ".join(map(str, [device, *sorted(_shown(device))]))


def is_same_mount(one: str, other: str) -> bool:
    """Whether two names can be of one mount; a process without /sys knows the device alone."""
    return all(mine == theirs for mine, theirs in zip(one.split(), other.split(), strict=False))


def _shown(device: int) -> Iterator[int]:
    """Return the inode numbers below /sys/fs; each workspace asks, and globs take twice as long."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        name = (DEVICES / number).readlink().name
    except OSError:  # of no single device, as btrfs
        found = source(number)
        name = Path(found).resolve().name if found.startswith("/dev/") else ""
    if name:
        for kind in _names(KINDS):
            yield from _inode(f"{KINDS}/{kind}/{name}")
        for each in _names(KINDS / "btrfs"):
            yield from _inode(f"{KINDS}/btrfs/{each}", within=f"devices/{name}")


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [each.name for each in found]
    except OSError:  # without /sys, or no file system of this kind is mounted
        return []


def _inode(place: str, within: str = "") -> Iterator[int]:
    """Yield the inode number of `place` if it exists, and `within` in it."""
    with suppress(OSError):
        if within:
            os.lstat(f"{place}/{within}")
        yield os.lstat(place).st_ino


def source(number: str) -> str:
    """Return what is mounted with a device number such as 8:1, often a device; empty if unknown."""
    return mounted(number)[1]


def mounted(number: str) -> tuple[str, str]:
    """Return kind and source of what is mounted with a device number, empty if unknown."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return "", ""
    for line in lines:
        mount, _, kind = line.partition(" - ")
        if mount.split(" ")[2] == number:
            words = kind.split(" ")
            return words[0], words[1]
    return "", ""


__all__ = ["is_same_mount", "mount_id", "mounted", "source"]
