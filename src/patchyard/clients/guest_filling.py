"""Brings what a plan mounts read-only into a virtual machine, as one archive over its channel."""

import os
import socket
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from patchyard.clients.wardens import FILL_NAME
from patchyard.domain.environment import Mount
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable

SILENCE_S = 60.0  # that the guest may take for a piece


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
            raise EnvironmentUnavailable(
                f"what is mounted is more than the {room // 1024**2} MiB that a virtual machine of"
                " this size takes",
                hint="mount less, allow the plan more memory, or take another kind",
            )
        return entry

    return pass_on


__all__ = ["SILENCE_S", "fill"]
