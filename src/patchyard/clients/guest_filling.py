"""Brings what a plan mounts read-only into a virtual machine, as one archive over its channel."""

import itertools
import os
import socket
import stat
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from patchyard.clients.wardens import FILL_NAME
from patchyard.domain.environment import Mount
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable

SILENCE_S = 60.0  # that the guest may take for a piece


def require_room(mounts: Sequence[Mount], *, room: int) -> None:
    """Raise EnvironmentUnavailable where the files of `mounts` are more than `room` bytes; blocks.

    It looks at sizes alone, so that nothing is started or sent for what does not fit.
    """
    left = room
    seen = set()
    for mount in mounts:
        for facts in _files(os.path.realpath(mount.source)):
            inode = (facts.st_dev, facts.st_ino)
            is_link = facts.st_nlink > 1 and inode in seen  # as tarfile has it
            left -= 0 if is_link else facts.st_size
            seen.add(inode)
            if left < 0:
                raise _too_much(room)


def _files(source: str) -> Iterator[os.stat_result]:
    """Yield the facts of the regular files at or below `source`, of those that can be seen."""
    below = (Path(at, name) for at, _, names in os.walk(source) for name in names)
    for path in itertools.chain([Path(source)], below):
        try:
            facts = path.lstat()
        except OSError:
            continue  # gone meanwhile: it is not sent
        if stat.S_ISREG(facts.st_mode):
            yield facts


def fill(folder: Path, mounts: Sequence[Mount], *, room: int) -> None:
    """Send all of `mounts`, `room` bytes at most; blocks.

    Raises EnvironmentUnavailable when it is more, EnvironmentBroken when it does not get there.
    """
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(SILENCE_S)
            peer.connect(f"/proc/self/fd/{descriptor}/{FILL_NAME}")
            with peer.makefile("wb") as stream:
                _send(stream, mounts, room)
            if peer.recv(1) != b".":
                raise EnvironmentBroken("the mounts did not get into the virtual machine")
    except (OSError, tarfile.TarError) as error:
        raise EnvironmentBroken(
            f"the mounts did not get into the virtual machine: {error}"
        ) from error
    finally:
        os.close(descriptor)


def _send(stream: IO[bytes], mounts: Sequence[Mount], room: int) -> None:
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        wanted = _bounded(room)
        for number, mount in enumerate(mounts):
            archive.add(os.path.realpath(mount.source), arcname=str(number), filter=wanted)


def _bounded(room: int) -> Callable[[tarfile.TarInfo], tarfile.TarInfo | None]:
    """Return what lets files, links and folders pass, and stops at what is too much."""
    left = room

    def pass_on(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal left
        if not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
            return None
        left -= entry.size
        if left < 0:
            raise _too_much(room)
        return entry

    return pass_on


def _too_much(room: int) -> EnvironmentUnavailable:
    return EnvironmentUnavailable(
        f"what is mounted is more than the {room // 1024**2} MiB that a virtual machine of this"
        " size takes",
        hint="mount less, allow the plan more memory, or take another kind",
    )


__all__ = ["SILENCE_S", "fill", "require_room"]
