"""The folder that a name leads to, by way of no link that another user can change under root."""

import os
import stat
from pathlib import Path, PurePath

from patchyard.domain.errors import StateRefusal

ENTRY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_LINKS = 40  # that Linux follows in a name, path_resolution(7)


def resolved(folder: Path) -> Path:
    """Return the folder's name without links, or as it is where it leads to no folder.

    Raises StateRefusal where root would follow a link of another user's.
    """
    try:
        return _walked(folder.absolute())
    except OSError:
        return folder


def _walked(folder: Path) -> Path:
    rest = list(reversed(folder.parts[1:]))
    links = 0
    at = os.open("/", ENTRY)
    try:
        while rest:
            name = rest.pop()
            there = os.open(name, ENTRY, dir_fd=at)
            status = os.fstat(there)
            if not stat.S_ISLNK(status.st_mode):
                os.close(at)
                at = there
                continue
            try:
                target = PurePath(os.readlink("", dir_fd=there))
            finally:
                os.close(there)
            links += 1
            if links > MAX_LINKS:
                return folder
            if os.geteuid() == 0 and status.st_uid != 0:
                raise _of_another(_name(at) / name, status.st_uid)
            if target.is_absolute():
                os.close(at)
                at = os.open("/", ENTRY)
            rest += [part for part in reversed(target.parts) if part != "/"]
        return _name(at)
    finally:
        os.close(at)


def _name(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _of_another(link: Path, uid: int) -> StateRefusal:
    return StateRefusal(
        f"{link} is a link of UID {uid}, who can change where it leads; nothing was changed",
        hint="name the folder that is meant",
        details={"place": str(link), "uid": uid},
    )


__all__ = ["ENTRY", "MAX_LINKS", "resolved"]
