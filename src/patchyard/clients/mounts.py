"""Mounting and unmounting through the kernel's own call. Linux only; needs CAP_SYS_ADMIN."""

import contextlib
import ctypes
import errno
import functools
import os
from collections.abc import Sequence
from pathlib import Path

MS_NOSUID = 2
MS_NODEV = 4
MS_REC = 16_384
MS_PRIVATE = 1 << 18
CLONE_NEWNS = 0x20000
MNT_DETACH = 2
UMOUNT_NOFOLLOW = 8
PLAIN = "redirect_dir=off,metacopy=off,index=off"


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def mount_overlay(target: Path, *, lower: Sequence[Path], upper: Path, work: Path) -> None:
    """Mount the folders `lower` (topmost first) under `upper` at `target`. Raises OSError.

    Paths are passed as descriptors, so that no character in them can be an option.
    """
    with contextlib.ExitStack() as held:

        def place(folder: Path) -> str:
            descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, descriptor)
            return f"/proc/self/fd/{descriptor}"

        below = ":".join(place(folder) for folder in lower)
        options = f"lowerdir={below},upperdir={place(upper)},workdir={place(work)},{PLAIN}"
        done = _libc().mount(
            b"overlay", os.fsencode(target), b"overlay", MS_NOSUID | MS_NODEV, options.encode()
        )
        if done != 0:
            raise OSError(ctypes.get_errno(), f"overlay mount at {target} failed")


def leave_mounts() -> None:
    """Give this thread a mount namespace of its own, which ends with it. Raises OSError."""
    if _libc().unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "no mount namespace can be made")
    if _libc().mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "the mounts cannot be made private")


def unmount(target: Path) -> None:
    """Take away what is mounted at `target`; nothing there is fine. Raises OSError otherwise."""
    while _libc().umount2(os.fsencode(target), MNT_DETACH | UMOUNT_NOFOLLOW) == 0:
        continue
    code = ctypes.get_errno()
    if code not in {errno.EINVAL, errno.ENOENT}:
        raise OSError(code, f"unmounting {target} failed")


def is_mounted(target: Path) -> bool:
    """Whether something is mounted at `target`."""
    try:
        return os.lstat(target).st_dev != os.lstat(target.parent).st_dev
    except FileNotFoundError:
        return False


__all__ = ["is_mounted", "leave_mounts", "mount_overlay", "unmount"]
