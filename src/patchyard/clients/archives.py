"""Unpacks a tar that a stranger may have made: nothing outside of its folder is read or written."""

import copy
import errno
import os
import posixpath
import shutil
import stat
import tarfile
from pathlib import Path
from typing import cast

from patchyard.toolbox import inside

PLAIN_MODE = 0o755  # what an archive may say of a file: no setuid bit enters
MOST_ENTRIES = 1_000_000  # a whole Debian desktop has some 300,000


def unpack(archive: tarfile.TarFile, folder: Path, *, spare_bytes: int = 0) -> None:
    """Unpack all but devices and pipes into `folder`, which no other process may write.

    `spare_bytes` of its disk stay free. Links on the way to a member, and to the file that a hard
    link names, lead as they do where `folder` is the root. Raises OSError (ENOSPC where it does not
    fit), ValueError, OverflowError and tarfile.TarError.
    """
    # Of names that were looked at; Python 3.11.2, which Debian 12 has, knows no filters.
    archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
    top = Path(os.path.realpath(folder))
    folders = []
    for number, member in enumerate(archive):
        if number >= MOST_ENTRIES:
            raise tarfile.ExtractError(f"it holds more than {MOST_ENTRIES:,} entries")
        if member.isdev():
            continue
        if _size(member) > shutil.disk_usage(top).free - spare_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), member.name)
        entry = copy.copy(member)
        entry.mode = member.mode & PLAIN_MODE
        if member.isdir():
            place = _place(top, member.name)
            place.mkdir(parents=True, exist_ok=True)
            folders.append((place, entry))
        else:
            _put(archive, entry, top)
    for place, entry in sorted(folders, reverse=True, key=lambda each: each[0]):
        archive.chown(entry, place, numeric_owner=False)
        archive.utime(entry, place)
        archive.chmod(entry, place)


def _size(member: tarfile.TarInfo) -> int:
    """Return how many bytes of a member are written; holes are none."""
    if member.sparse is not None:
        pieces = cast("list[tuple[int, int]]", member.sparse)  # offset and length of each
        return sum(length for _, length in pieces)
    return member.size if member.isreg() else 0


def _put(archive: tarfile.TarFile, entry: tarfile.TarInfo, top: Path) -> None:
    """Write what is no folder, in the place of what an earlier member left there."""
    place = _lying(top, entry.name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    if entry.islnk():
        source = _lying(top, entry.linkname)
        if stat.S_ISDIR(source.lstat().st_mode):
            raise tarfile.ExtractError(f"{entry.name} is a second name of a folder")
        os.link(source, place, follow_symlinks=False)
        return
    entry.name = str(place.relative_to(top))
    archive.extract(entry, top)


def _lying(top: Path, name: str) -> Path:
    """Return where a member lies that may itself be a link, which is not followed."""
    above, last = posixpath.split(name.rstrip("/"))
    if last in {"", ".", ".."}:
        raise tarfile.ExtractError(f"{name!r} is no name of a file")
    return _place(top, above) / last


def _place(top: Path, name: str) -> Path:
    """Return where the folder `name` of the archive lies below `top`, by the links there."""
    if ".." in name.split("/"):
        raise tarfile.ExtractError(f"{name} leads out of it")
    asking = inside.resolved(f"/{name}")
    told: str | None = None
    try:
        path = next(asking)
        while True:
            told = _link(top, path)
            path = asking.send(told)
    except StopIteration as found:
        return top / str(found.value).lstrip("/")
    except RuntimeError as error:
        raise tarfile.ExtractError(str(error)) from error


def _link(top: Path, path: str) -> str | None:
    """Return where the link at `path` leads, empty where it is none, None where nothing lies."""
    place = top / path.lstrip("/")
    try:
        if not stat.S_ISLNK(place.lstat().st_mode):
            return ""
    except FileNotFoundError:
        return None
    return posixpath.join(posixpath.dirname(path), os.fspath(place.readlink()))


__all__ = ["MOST_ENTRIES", "PLAIN_MODE", "unpack"]
