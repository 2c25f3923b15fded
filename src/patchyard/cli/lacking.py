"""Where something is missing that an error does not place: room on a disk, the folder one is in."""

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from patchyard.clients.room import FULL, explained
from patchyard.config import Places, places
from patchyard.domain.errors import PatchyardError, Unavailable
from patchyard.domain.machine import is_full_disk, refused_by_machine

READ_ONLY = os.strerror(errno.EROFS)
MIB = 1024 * 1024
SCARCE_BYTES = 64 * MIB


def refused(error: OSError) -> PatchyardError:
    """Return the error that `error` stands for; a lost working folder is called so."""
    if isinstance(error, FileNotFoundError) and error.filename is None and not _has_folder():
        gone = os.environ.get("PWD", "")
        return Unavailable(
            f"the folder you are in is not there any more{gone and f': {gone}'}",
            hint="go to one that is, with cd",
        )
    return refused_by_machine(error)


def _has_folder() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def placed(error: PatchyardError, environ: Mapping[str, str]) -> PatchyardError:
    """Return `error`; of a disk that takes nothing it says which of our folders lies there."""
    if not isinstance(error, Unavailable):
        return error
    try:
        where = places(environ)
        explained(error, _folders(where))
    except (PatchyardError, OSError):  # a wrong variable, or no folder that it is relative to
        return error
    is_of_disk = FULL in error.message or is_full_disk(error.message) or error.message == READ_ONLY
    if "inodes" in error.details or not is_of_disk:
        return error
    if error.message == READ_ONLY and not os.access(where.home, os.W_OK):
        error.message = f"{where.home}: {READ_ONLY}"
        return error
    named = {"PATCHYARD_HOME": where.home}
    if where.tasks is not None:
        named["WORKSPACE_DIR"] = where.tasks
    disks: dict[int, tuple[int, str]] = {}  # by device, each looked at once: others may write to it
    for name, folder in named.items():
        there = _nearest(folder)
        disks.setdefault(there.stat().st_dev, (shutil.disk_usage(there).free, name))
    free, name = min(disks.values(), key=lambda disk: disk[0])
    if free >= SCARCE_BYTES:
        return error  # it is another disk that is full
    cure = f"{named[name]} has {free / MIB:.1f} MiB left; {name} chooses another place"
    error.hint = f"{error.hint}; {cure}" if error.hint else cure
    return error


def _folders(where: Places) -> list[Path]:
    return [where.home, *filter(None, [where.tasks]), Path(tempfile.gettempdir())]


def _nearest(folder: Path) -> Path:
    """Return the folder, or the one above it that is there."""
    while not folder.exists():
        folder = folder.parent
    return folder


__all__ = ["MIB", "READ_ONLY", "placed", "refused"]
